"""An event as a line: what was stored comes back, and nothing passes that would end its field, line or message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import errors
from tallystick.event.line import line, lines, parse_new, parse_stored
from tallystick.event.model import Event
from tallystick.testing.builders import event, named


@pytest.fixture
def stored() -> list[Event]:
    """Three events as they were appended."""
    with tallystick.open("memory:") as store:
        store.append("order/a", [named(1), named(2, meta={"org": "acme", "trace": 'a"b'}), named(3)])
        return store.read_stream("order/a")


def test_a_line_is_read_as_the_event_that_it_was(stored: list[Event]) -> None:
    """Each field, an erased payload and a signature included."""
    erased = msgspec.structs.replace(stored[0], payload=None)
    signed = msgspec.structs.replace(stored[1], signature=bytes(range(64)))
    for each in (*stored, erased, signed):
        assert parse_stored(line(each).encode()) == each


def test_many_events_are_a_line_each(stored: list[Event]) -> None:
    """The last line ends too; no event is no line."""
    assert [parse_stored(each) for each in lines(stored).splitlines()] == stored
    assert lines(stored).endswith(b"\n")
    assert lines([]) == b""


@pytest.mark.parametrize("field", ["payload", "meta"])
@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1},"x":{"b":2}',
        b'{"a":1}\n',
        b'{"a":\n1}',
        b'{"a":\r1}',
        b"[1]",
        b'"a"',
        b"1",
        b"",
        b"{",
        b'{"\xff":1}',
        b'{"a":1} ',
    ],
)
def test_what_would_end_its_field_or_line_is_damage(stored: list[Event], field: str, text: bytes) -> None:
    """SAFE-01: the error names the event, also where the checksum fits."""
    fields: dict[str, Any] = {field: text}
    with pytest.raises(errors.Damaged, match="order/a 2 ") as refused:
        line(msgspec.structs.replace(stored[1], **fields))
    assert (refused.value.first, refused.value.last) == (2, 2)


def test_meta_is_never_null(stored: list[Event]) -> None:
    """A payload is null if it was erased; meta cannot be erased."""
    with pytest.raises(errors.Damaged):
        line(msgspec.structs.replace(stored[0], meta=b"null"))
    with pytest.raises(errors.Damaged):
        line(msgspec.structs.replace(stored[0], payload=b"null"))


def test_a_line_of_no_event_is_a_value_error() -> None:
    """Anything else than a line, also one with a half id or hash."""
    with tallystick.open("memory:") as store:
        store.append("order/a", event())
        text = line(store.read_stream("order/a")[0])
    for wrong in (
        b"",
        b"{}",
        text.replace('"id":"', '"id":"x').encode(),
        text.replace('"link":"', '"link":"0').encode(),
    ):
        with pytest.raises(ValueError):  # any of them: whoever reads lines says which line
            parse_stored(wrong)


@pytest.mark.parametrize("claim", ["seq", "checksum", "link"])
def test_a_claim_that_is_null_is_refused(stored: list[Event], claim: str) -> None:
    """Otherwise the line of an export that lost its hash would be appended without being checked."""
    given = msgspec.json.decode(line(stored[0])) | {claim: None}
    with pytest.raises(errors.InvalidInput, match=claim):
        parse_new(msgspec.json.encode(given))
