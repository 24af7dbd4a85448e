"""An event as one line of JSON: every envelope field, payload and meta verbatim as they were stored.

    {"position","stream","seq","type","version","id","time","payload","meta","checksum","link","signature"}

`id` is UUID text, `time` ns since 1970, hashes and signature lower-case hex, `payload` null if it was erased.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tallystick.event.model import Event


@lru_cache(maxsize=1 << 16)
def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def line(event: Event) -> str:
    """One event as JSON text, without a newline."""
    id_ = event.id.hex()
    payload = "null" if event.payload is None else event.payload.decode()
    signature = "null" if event.signature is None else f'"{event.signature.hex()}"'
    return (
        f'{{"position":{event.position},"stream":{_quoted(event.stream)},"seq":{event.seq},"type":{_quoted(event.type)},'
        f'"version":{event.version},"id":"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}","time":{event.time},'
        f'"payload":{payload},"meta":{event.meta.decode()},"checksum":"{event.checksum.hex()}",'
        f'"link":"{event.link.hex()}","signature":{signature}}}'
    )
