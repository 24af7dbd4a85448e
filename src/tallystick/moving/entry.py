"""A line of NDJSON on its way in: what `tally import` takes.

    {"stream","type","payload"[,"version","meta","expected","id","time","signature"]}

A line of an export has more: `seq`, `checksum` and `link` are claims that must come true, `position`, `previous` and
`recorded` belong to the store it came from and are ignored. Any other key is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical, ids, names
from tallystick.event.model import NewEvent
from tallystick.store import expectation

REQUIRED = ("stream", "type", "payload")
IGNORED = frozenset({"position", "previous", "recorded"})
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "stream": ((str,), "a text"),
    "type": ((str,), "a text"),
    "payload": ((dict,), "an object"),
    "version": ((int, type(None)), "an integer"),
    "meta": ((dict, type(None)), "an object"),
    "expected": ((int, str, type(None)), "a seq, 'none' or 'any'"),
    "id": ((str, type(None)), "a UUID"),
    "time": ((int, type(None)), "nanoseconds since 1970"),
    "signature": ((str, type(None)), "hex digits"),
    "seq": ((int,), "an integer"),
    "checksum": ((str,), "hex digits"),
    "link": ((str,), "hex digits"),
}


class Line(msgspec.Struct):
    """One event to be imported, where it stood in the file, and what it claims to become."""

    number: int
    stream: str
    event: NewEvent
    expected: expectation.Expected = expectation.ANY
    seq: int | None = None
    checksum: bytes | None = None
    link: bytes | None = None

    @property
    def id(self) -> bytes | None:
        """The id that the line gives; None if the store is to mint one."""
        return self.event.id if isinstance(self.event.id, bytes) else None

    @property
    def claims(self) -> bool:
        """Whether the line says what is to come out."""
        return self.seq is not None or self.checksum is not None or self.link is not None

    @property
    def is_foreign_control(self) -> bool:
        """Whether this is a control fact of the store that was exported: it is about that store, not about this one."""
        return self.claims and names.is_reserved(self.stream.partition("/")[0])

    def same_as(self, other: Line) -> bool:
        """Whether both lines say the same, to the byte: Python holds 1, 1.0 and true for equal."""
        return self._said() == other._said()

    def _said(self) -> tuple[Any, ...]:
        event = self.event
        content = canonical.encode({"payload": event.payload, "meta": event.meta or {}})
        given = (event.type, event.version, event.time, event.signature, self.seq, self.checksum, self.link)
        return (self.stream, content, *given)


class BrokenClaim(Exception):
    """A line will not become what it says."""

    def __init__(self, line: Line, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def parse(text: bytes, number: int) -> Line:
    """The line as an event to append; anything that is not one is refused."""
    fields = canonical.parse(text, what="line")
    if type(fields) is not dict:
        raise errors.InvalidInput(reason="it is not a JSON object")
    _check_keys(fields)
    given = fields.get("id")
    event = NewEvent(
        type=fields["type"],
        payload=fields["payload"],
        meta=fields.get("meta"),
        version=fields.get("version"),
        id=None if given is None else ids.to_bytes(given),
        time=fields.get("time"),
        signature=_bytes(fields, "signature"),
    )
    return Line(
        number,
        fields["stream"],
        event,
        expected=_expected(fields.get("expected")),
        seq=fields.get("seq"),
        checksum=_bytes(fields, "checksum"),
        link=_bytes(fields, "link"),
    )


def _check_keys(fields: dict[str, Any]) -> None:
    for key in REQUIRED:
        if key not in fields:
            raise errors.InvalidInput(reason=f"it has no {key!r}")
    if fields["payload"] is None:
        reason = "its payload was erased, so that it cannot be appended: `tally export --whole` moves erased events too"
        raise errors.InvalidInput(reason=reason)
    for key, value in fields.items():
        if key in IGNORED:
            continue
        if key not in _KINDS:
            raise errors.InvalidInput(reason=f"{key[:60]!r} is no key of a line; there are {', '.join(_KINDS)}")
        kinds, must = _KINDS[key]
        if type(value) not in kinds:
            raise errors.InvalidInput(reason=f"its {key!r} must be {must}")


def _expected(value: int | str | None) -> expectation.Expected:
    if value is None:
        return expectation.ANY
    return expectation.from_text(value) if isinstance(value, str) else expectation.check(value)


def _bytes(fields: dict[str, Any], key: str) -> bytes | None:
    text = fields.get(key)
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise errors.InvalidInput(reason=f"its {key!r} must be hex digits") from None
