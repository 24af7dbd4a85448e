"""The wire format: golden events, and what is not one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import errors
from tallystick.community import Event, wire_format
from tallystick.community.acceptance import examine
from tallystick.community.entry import FeedEntry, FeedStreams
from tallystick.testing.community.people import Author, keys

GOLDEN = Path(__file__).parents[1] / "golden" / "community.json"


def golden() -> list[dict[str, Any]]:
    """Signed events with the links and signatures to be met."""
    found: list[dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))["events"]
    return found


def made() -> list[tuple[Event, FeedEntry]]:
    """The same events, signed again from the keys: Ed25519 signatures are deterministic."""
    founder, friend = Author(keys(1), keys(1).node), Author(keys(2), keys(1).node)
    found = []
    for author, type_, data in [
        (founder, "community.created", {"name": "Golden"}),
        (founder, "community.member.invited", {"node": friend.node, "role": "member"}),
        (friend, "community.member.joined", {"invite": friend.node}),
        (friend, "chat.message.sent", {"text": "Grüße, 你好", "n": 9007199254740993, "f": 1.0}),
    ]:
        author.lamport = len(found)
        entry = author.entry(type_, data, id=bytes([len(found)]) * 16, time=1_700_000_000_123_456_789 + len(found))
        author.head = (entry.seq, entry.link)
        found.append((wire_format.to_wire(entry, founder.node), entry))
    return found


def test_golden_events_are_met() -> None:
    """COM-01: keys, fields, canonical bytes, links and signatures are those that were committed."""
    for document, (event, entry) in zip(golden(), made(), strict=True):
        assert document["wire"] == msgspec.to_builtins(event)
        assert document["link"] == entry.link.hex()


def test_golden_events_are_accepted() -> None:
    """COM-01, COM-03: what is on the wire alone suffices to verify it."""
    for document in golden():
        event = wire_format.load(json.dumps(document["wire"]).encode())
        (entry,) = examine([event], FeedStreams(keys(1).node))
        assert isinstance(entry, FeedEntry)
        assert entry.link.hex() == document["link"]
        assert wire_format.to_wire(entry, keys(1).node) == event


@pytest.mark.parametrize("field", Event.__struct_fields__)
def test_every_field_is_covered_by_the_signature(field: str) -> None:
    """COM-01: changing any one of them makes the event invalid."""
    event = made()[3][0]
    other: dict[str, Any] = {
        "schema_version": 2, "event_id": "0" * 26, "lamport": 77, "wall_clock": "2023-11-14T22:13:20.000000000Z",
        "community_id": keys(5).node, "author": keys(5).node, "event_type": "chat.message.read", "data": {},
        "signature": "00" * 64, "seq": 9, "previous": "11" * 32, "time_ns": 5, "meta": {"lamport": 4},
    }  # fmt: skip
    (found,) = examine([msgspec.structs.replace(event, **{field: other[field]})], FeedStreams(keys(1).node))
    assert isinstance(found, errors.EventLogError)
    assert found.code == "invalid_signature"


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"{}", b"\xff", b'{"schema_version":1}', b"[" * 50_000,
        b'{"schema_version":NaN}', b'{"schema_version":1e999}',
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(text: bytes) -> None:
    """COM-01: malformed bytes are a typed refusal."""
    with pytest.raises(errors.EventLogError):
        wire_format.load(text)


def test_an_unknown_field_is_ignored() -> None:
    """COM-01: a peer of a later version is understood; what was not signed is not carried along."""
    event = made()[0][0]
    assert wire_format.load(json.dumps(msgspec.to_builtins(event) | {"extra": 1}).encode()) == event


@pytest.mark.parametrize("time_ns", [0, 1, 1_700_000_000_000_000_000, (1 << 63) - 1])
def test_the_wall_clock_is_the_instant_exactly(time_ns: int) -> None:
    """COM-01: RFC 3339 with nanoseconds, so that nothing is rounded away."""
    from datetime import datetime

    text = wire_format.wall_clock(time_ns)
    assert datetime.fromisoformat(text[:19] + "+00:00").timestamp() == time_ns // 1_000_000_000
    assert int(text[20:29]) == time_ns % 1_000_000_000
