"""A frame: one commit.

    magic u32 | body length u32 | first position u64 | position count u32 | CRC-32 u32 | body | SHA-256 32

The body is MessagePack `[recorded ns, events, side records]`; an event is the array of its envelope fields; side.py has
the side records. The count is that of the positions: when a frame was written again without what was pruned, it holds
fewer events. CRC and SHA-256 both start with the segment's identity and the frame's offset (u64), so that a frame is
valid in one place only: not in another segment or generation, nor where a lost write left an older copy of it. The CRC
covers the header alone: it tells a changed length from a torn frame. The magic is not zero, and a body is never empty,
because a disk that lost power leaves zeros.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tallystick.event.model import Event, Row

MAGIC = 0x7A6C7901
MAGIC_BYTES = MAGIC.to_bytes(4, "big")
BODY_BYTES_MAX = 1 << 30
BUFFER_BYTES_KEPT = 8 << 20

_HEADER = struct.Struct(">IIQII")
_FIELDS = struct.Struct(">IIQI")
HEADER_SIZE = _HEADER.size
TRAILER_SIZE = 32
OVERHEAD = HEADER_SIZE + TRAILER_SIZE


class Body(msgspec.Struct, array_like=True, frozen=True):
    """A frame's body, decoded; payloads stay bytes. `digest` is the SHA-256 of its frame: the reader sets it."""

    recorded: int
    events: list[Event]
    side: list[Any]
    digest: bytes = b""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Where a frame stands in its segment and which positions it holds: first, and the one behind the last.

    `digest` is its SHA-256, once that was compared.
    """

    offset: int
    end: int
    first_position: int
    next_position: int
    digest: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(Body).decode
_unpack_raw = msgspec.msgpack.Decoder(tuple[int, list[msgspec.Raw], msgspec.Raw]).decode
_unpack_side = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw, list[Any]]).decode
_unpack_event = msgspec.msgpack.Decoder(Event).decode


class FrameBuffer:
    """Where frames are made: one buffer for all of them, since half a megabyte of fresh memory a commit is not free."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def encode(
        self,
        identity: bytes,
        offset: int,
        first_position: int,
        rows: Sequence[Row | Event],
        *,
        recorded: int,
        side: Sequence[Any],
        count: int | None = None,
    ) -> bytearray:
        """The bytes of one commit, for this place alone. They are good until the next call.

        `count` is the number of positions that it covers, if that is not the number of its events.
        """
        if len(self._buffer) > BUFFER_BYTES_KEPT:
            self._buffer = bytearray()
        buffer = self._buffer
        _encoder.encode_into((recorded, rows, side), buffer, HEADER_SIZE)
        length = len(buffer) - HEADER_SIZE
        if not 0 < length <= BODY_BYTES_MAX:
            raise ValueError("a frame's body must have between 1 byte and 1 GiB")
        place = _place(identity, offset)
        fields = _FIELDS.pack(MAGIC, length, first_position, len(rows) if count is None else count)
        buffer[:HEADER_SIZE] = fields + zlib.crc32(fields, zlib.crc32(place)).to_bytes(4, "big")
        digest = hashlib.sha256(place)
        digest.update(buffer)
        buffer += digest.digest()
        return buffer


def decode_header(identity: bytes, data: bytes, *, offset: int, at: int = 0) -> Frame | None:
    """The frame that a valid header at `data[at:]` announces at this offset of its segment; None if it is not one."""
    if len(data) - at < HEADER_SIZE:
        return None
    magic, length, first, count, check = _HEADER.unpack_from(data, at)
    if magic != MAGIC or not 0 < length <= BODY_BYTES_MAX:
        return None
    if zlib.crc32(data[at : at + _FIELDS.size], zlib.crc32(_place(identity, offset))) != check:
        return None
    return Frame(offset, offset + OVERHEAD + length, first, first + count)


def body_of(identity: bytes, data: bytes, frame: Frame, *, at: int = 0) -> bytes | None:
    """The verified body of a frame whose bytes begin at `data[at:]`; None if they are not what was written."""
    size = frame.end - frame.offset
    if len(data) - at < size:
        return None
    split = at + HEADER_SIZE
    body = data[split : at + size - TRAILER_SIZE]
    digest = hashlib.sha256(_place(identity, frame.offset) + data[at:split])
    digest.update(body)
    return body if digest.digest() == data[at + size - TRAILER_SIZE : at + size] else None


def with_digest(frame: Frame, data: bytes, *, at: int = 0) -> Frame:
    """The frame with the SHA-256 that `body_of` compared."""
    end = at + frame.end - frame.offset
    return msgspec.structs.replace(frame, digest=data[end - TRAILER_SIZE : end])


def _place(identity: bytes, offset: int) -> bytes:
    return identity + offset.to_bytes(8, "big")


def decode_body(body: bytes) -> Body:
    """The events and side records of a verified body."""
    return _unpack(body)


def decode_side(body: bytes) -> list[Any]:
    """The side records of a verified body; its events are not decoded."""
    return _unpack_side(body)[2]


def decode_events_with(body: bytes, text: bytes) -> Iterator[Event]:
    """The events of a verified body whose bytes contain `text`; the others are not decoded."""
    return (_unpack_event(raw) for raw in _unpack_raw(body)[1] if text in bytes(raw))
