"""An event as one line of JSON: every envelope field, payload and meta verbatim as they were stored.

    {"position","stream","seq","type","version","id","time","payload","meta","checksum","link","signature"}

`id` is UUID text, `time` ns since 1970, hashes and signature lower-case hex, `payload` null if it was erased.

Payload and meta must be one JSON object each without line breaks. Others would let them end their field, their line or
their message, and go on as something that nobody recorded: that is damage, also where the checksum fits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event.model import Event

_raw: msgspec.json.Decoder[Any] = msgspec.json.Decoder(msgspec.Raw)


@lru_cache(maxsize=1 << 16)
def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _object(event: Event, text: bytes, what: str) -> str:
    """Stored bytes as text that can stand inside other JSON."""
    try:
        if text[:1] != b"{" or b"\n" in text or b"\r" in text:
            raise ValueError
        _raw.decode(text)
        return text.decode()
    except ValueError:
        reason = f"the {what} of {event.stream} {event.seq} is not a JSON object on one line"
        raise errors.Damaged(first=event.position, last=event.position, reason=reason) from None


def line(event: Event) -> str:
    """One event as JSON text, without a newline."""
    id_ = event.id.hex()
    payload = "null" if event.payload is None else _object(event, event.payload, "payload")
    signature = "null" if event.signature is None else f'"{event.signature.hex()}"'
    return (
        f'{{"position":{event.position},"stream":{_quoted(event.stream)},"seq":{event.seq},"type":{_quoted(event.type)},'
        f'"version":{event.version},"id":"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}","time":{event.time},'
        f'"payload":{payload},"meta":{_object(event, event.meta, "meta")},"checksum":"{event.checksum.hex()}",'
        f'"link":"{event.link.hex()}","signature":{signature}}}'
    )
