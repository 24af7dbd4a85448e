"""An event as one line of JSON: every envelope field, payload and meta verbatim as they were stored.

    {"position","stream","seq","type","version","id","time","payload","meta","checksum","link","signature"}

`id` is UUID text, `time` ns since 1970, hashes and signature lower-case hex, `payload` null if it was erased.
`line` writes it and `event_of` reads it; whoever reads one that may have been changed checks checksum and link.

Payload and meta must be one JSON object each without line breaks. Others would let them end their field, their line or
their message, and go on as something that nobody recorded: that is damage, also where the checksum fits.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from tallystick import errors
from tallystick.event.model import Event

FRAME = b'{"tally":'  # how a line of an export begins that is not an event: see `tallystick.moving.frame`
_pair = msgspec.json.Decoder(tuple[msgspec.Raw, msgspec.Raw]).decode
_OPEN = ord("{")


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
    """Many events, a line each."""
    text = "\n".join(map(line, events))
    return (text + "\n").encode() if text else b""


class _Line(msgspec.Struct):
    """The line, decoded; payload and meta stay the bytes they are. Keys that are not named here are passed over."""

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


_decode = msgspec.json.Decoder(_Line).decode


def event_of(text: bytes) -> Event:
    """The event of a line; `ValueError` if it is not one."""
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
