"""The body of a short frame: a commit of one event, and nothing else. MessagePack

    [recorded - time, stream, seq, type, version, time, id, content, checksum, link], and the signature if there is one

`content` is the array [payload, meta], or the raw DEFLATE of its MessagePack if that is smaller. `checksum` is nil when
it is the SHA-256 of the payload, which is the rule. The position is in the frame's header.

The content follows the id, so that an erased payload can be blanked in bytes that are no whole frame.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import msgspec

from tallystick.event.model import Event, Row

CONTENT_BYTES_MAX = 1 << 15  # larger ones gain nothing from a short frame, and the length of one has 16 bits
DEFLATE_BYTES_MIN = 256  # smaller ones hardly shrink
_LEVEL, _WINDOW, _MEMORY = 1, -12, 4  # a window of 4 KiB: a larger one costs more to set up than to use

_encode = msgspec.msgpack.Encoder().encode


class Single(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body, decoded."""

    lag: int
    stream: str
    seq: int
    type: str
    version: int
    time: int
    id: bytes
    content: bytes | tuple[bytes, bytes]
    checksum: bytes | None
    link: bytes
    signature: bytes | None = None


_decode = msgspec.msgpack.Decoder(Single).decode
_decode_content = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


def encode(row: Row, *, recorded: int, deflate: bool) -> tuple[Any, ...] | None:
    """What the frame of this one event holds; None if it needs a full frame."""
    _, stream, seq, type_, version, id_, time, payload, meta, checksum, link, signature = row
    lag = recorded - time
    if payload is None or len(payload) + len(meta) > CONTENT_BYTES_MAX or not -(1 << 63) <= lag < 1 << 63:
        return None
    content = _content(payload, meta) if deflate else (payload, meta)
    check = None if hashlib.sha256(payload).digest() == checksum else checksum
    fields = (lag, stream, seq, type_, version, time, id_, content, check, link)
    return fields if signature is None else (*fields, signature)


def _content(payload: bytes, meta: bytes) -> bytes | tuple[bytes, bytes]:
    content = (payload, meta)
    if len(payload) + len(meta) < DEFLATE_BYTES_MIN:
        return content
    plain = _encode(content)
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    packed = packing.compress(plain) + packing.flush()
    return packed if len(packed) < len(plain) else content


def decode(body: bytes, *, position: int) -> tuple[int, Event]:
    """When the event of a verified body was recorded, and the event."""
    found = _decode(body)
    content = found.content
    if isinstance(content, bytes):
        content = _decode_content(zlib.decompress(content, -zlib.MAX_WBITS))
    payload, meta = content
    checksum = hashlib.sha256(payload).digest() if found.checksum is None else found.checksum
    fields = (position, found.stream, found.seq, found.type, found.version, found.id, found.time, payload, meta)
    return found.time + found.lag, Event(*fields, checksum, found.link, found.signature)
