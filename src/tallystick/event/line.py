"""An event as one line of JSON: the only place that writes and parses it.

A stored event has every field of the envelope, with payload and meta verbatim:

    {"position","stream","seq","type","version","id","time","payload","meta","checksum","link","signature"}

`id` is UUID text, `time` ns since 1970, hashes and signature lower-case hex, `payload` null if it was erased. `line`
writes it, `parse_stored` reads it. If the line may have been changed, check its checksum and link.

A new event, which is to be appended, needs less:

    {"stream","type","payload"[,"version","meta","tags","expected","id","time","signature","seq","checksum","link"]}

`parse_new` reads it, and a stored event too: then `seq`, `checksum` and `link` are claims that must come true, and
`position`, `previous` and `recorded` belong to the store that it came from and are ignored. Any other key is refused.

Payload and meta must be one JSON object each without line breaks. Anything else could end its field, its line or its
message early, and continue as something that nobody recorded. That is damage, even if the checksum is right.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical, ids
from tallystick.event.model import Event, NewEvent

FRAME = b'{"tally":'  # the start of a line of an export that is not an event: see `tallystick.moving.frame`
_pair = msgspec.json.Decoder(tuple[msgspec.Raw, msgspec.Raw]).decode
_OPEN = ord("{")
_CLAIMS = ("seq", "checksum", "link")


@lru_cache(maxsize=1 << 16)
def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def line(event: Event) -> str:
    """One event as JSON text, without a newline."""
    id_ = event.id.hex()
    payload, meta = b"null" if event.payload is None else event.payload, event.meta
    try:
        first, second = _pair(b"[%b,%b]" % (payload, meta))  # one call for both: this is done for every event sent
        is_sound = len(first) == len(payload) and len(second) == len(meta) and meta[0] == _OPEN
        is_sound = is_sound and (payload[0] == _OPEN or event.payload is None)
        payload_text, meta_text = payload.decode(), meta.decode()
    except (ValueError, IndexError):
        raise _damage(event) from None
    signature = "null" if event.signature is None else f'"{event.signature.hex()}"'
    text = (
        f'{{"position":{event.position},"stream":{_quoted(event.stream)},"seq":{event.seq},"type":{_quoted(event.type)},'
        f'"version":{event.version},"id":"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}","time":{event.time},'
        f'"payload":{payload_text},"meta":{meta_text},"checksum":"{event.checksum.hex()}",'
        f'"link":"{event.link.hex()}","signature":{signature}}}'
    )
    if not is_sound or "\n" in text or "\r" in text:
        raise _damage(event)
    return text


def _damage(event: Event) -> errors.Damaged:
    reason = f"payload or meta of {event.stream} {event.seq} is not a JSON object on one line"
    return errors.Damaged(first=event.position, last=event.position, reason=reason)


def lines(events: Iterable[Event]) -> bytes:
    """Many events, one per line."""
    text = "\n".join(map(line, events))
    return (text + "\n").encode() if text else b""


class _StoredLine(msgspec.Struct, frozen=True):
    """The line of a stored event. Payload and meta stay bytes; unknown keys are ignored."""

    position: int
    stream: str
    seq: int
    type: str
    version: int
    id: str
    time: int
    payload: msgspec.Raw
    meta: msgspec.Raw
    checksum: str
    link: str
    signature: str | None = None


_decode = msgspec.json.Decoder(_StoredLine).decode


def parse_stored(text: bytes) -> Event:
    """The stored event of a line; `ValueError` if it is not one."""
    given = _decode(text)
    payload = bytes(given.payload)
    return Event(
        given.position,
        given.stream,
        given.seq,
        given.type,
        given.version,
        uuid.UUID(given.id).bytes,
        given.time,
        None if payload == b"null" else payload,
        bytes(given.meta),
        bytes.fromhex(given.checksum),
        bytes.fromhex(given.link),
        None if given.signature is None else bytes.fromhex(given.signature),
    )


class NewEventLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The line of a new event, which may claim what the event will become."""

    stream: str
    type: str
    payload: dict[str, Any]
    version: int | None = None
    meta: dict[str, Any] | None = None
    tags: list[str] = []
    id: str | None = None
    time: int | None = None
    expected: int | str | None = None
    signature: str | None = None
    seq: int | None = None
    checksum: str | None = None
    link: str | None = None
    position: Any = None
    previous: Any = None
    recorded: Any = None

    @property
    def event(self) -> NewEvent:
        """The event as a store takes it."""
        return NewEvent(
            type=self.type,
            payload=self.payload,
            meta=self.meta,
            version=self.version,
            id=None if self.id is None else ids.to_bytes(self.id),
            time=self.time,
            signature=self.hex_bytes("signature"),
            tags=self.tags,
        )

    def hex_bytes(self, key: str) -> bytes | None:
        """The bytes of a field that has hex digits."""
        text = getattr(self, key)
        try:
            return None if text is None else bytes.fromhex(text)
        except ValueError:
            raise errors.InvalidInput(reason=f"its {key!r} must be hex digits") from None


def parse_new(text: bytes) -> NewEventLine:
    """The new event of a line; refused by name if it is not one."""
    found = canonical.parse(text, what="line")
    if type(found) is dict:
        if found.get("payload", text) is None:
            reason = "its payload was erased, so it cannot be appended: `tally export --whole` moves erased events too"
            raise errors.InvalidInput(reason=reason)
        for key in _CLAIMS:
            if found.get(key, text) is None:
                raise errors.InvalidInput(reason=f"its {key!r} is null: a claim is checked, or left out")
    try:
        return msgspec.convert(found, NewEventLine)
    except msgspec.ValidationError as problem:
        raise errors.InvalidInput(reason=f"it is not the line of an event: {problem}") from None
