"""A frame: one commit.

    magic u32 | body length u32 | first position u64 | position count u32 | CRC-32 u32 | body | SHA-256 32

The body is MessagePack `[recorded ns, events, side records]`. An event is the array of its envelope fields; side.py has
the side records. The count is that of the positions: a frame that was written again without pruned events holds fewer.

A short frame is a commit of one event and nothing else, in a segment whose format allows it:

    magic u32 | body length u16 | position u48 | CRC-32 u32 | body | SHA-256 32

Its body is MessagePack `[recorded - time, stream, seq, type, version, time, id, content, checksum, link]`, followed by
the signature if there is one. `content` is the array [payload, meta], or the raw DEFLATE of its MessagePack if that is
smaller. `checksum` is nil if it is the SHA-256 of the payload, as it should be. The content follows the id, so that an
erased payload can be blanked in bytes that are not a whole frame.

Invariants:
- CRC and SHA-256 both start with the segment's identity and the frame's offset (u64). So a frame is valid in one place
  only: not in another segment or generation, nor where a lost write left an older copy of it.
- The CRC covers only the header: it tells a changed length from a torn frame.
- The magic is not zero, and a body is never empty, because a disk that lost power leaves zeros.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tallystick.event.model import Event, Row

MAGIC, SHORT_MAGIC = 0x7A6C7901, 0x7A6C7902
MAGIC_BYTES = MAGIC.to_bytes(4, "big")[:3]  # what both begin with
BODY_BYTES_MAX = 1 << 30
BUFFER_BYTES_KEPT = 8 << 20

_HEADER = struct.Struct(">IIQII")
_FIELDS = struct.Struct(">IIQI")
HEADER_SIZE = _HEADER.size
_SHORT = struct.Struct(">IHHII")
_SHORT_FIELDS = struct.Struct(">IHHI")
SHORT_HEADER_SIZE = _SHORT.size
SHORT_POSITION_MAX = (1 << 48) - 1
TRAILER_SIZE = 32
CONTENT_BYTES_MAX = 1 << 15  # larger ones gain nothing from a short frame, and the length of one has 16 bits
DEFLATE_BYTES_MIN = 256  # smaller ones hardly shrink
_LEVEL, _WINDOW, _MEMORY = 1, -12, 4  # a window of 4 KiB: a larger one costs more to set up than to use


class Body(msgspec.Struct, array_like=True, frozen=True):
    """A frame's body, decoded; payloads stay bytes. `digest` is the SHA-256 of its frame: the reader sets it."""

    recorded: int
    events: list[Event]
    side: list[Any]
    digest: bytes = b""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Where a frame is in its segment, and the positions that it covers: the first, and the one after the last.

    `digest` is its SHA-256, once that was compared.
    """

    offset: int
    end: int
    first_position: int
    next_position: int
    is_short: bool = False
    digest: bytes = b""

    @property
    def header_size(self) -> int:
        """Where its body begins in it."""
        return SHORT_HEADER_SIZE if self.is_short else HEADER_SIZE


class _ShortBody(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of a short frame, decoded."""

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


_encoder = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(Body).decode
_unpack_raw = msgspec.msgpack.Decoder(tuple[int, list[msgspec.Raw], msgspec.Raw]).decode
_unpack_side = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw, list[Any]]).decode
_unpack_event = msgspec.msgpack.Decoder(Event).decode
_unpack_short = msgspec.msgpack.Decoder(_ShortBody).decode
_unpack_content = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


class FrameBuffer:
    """Encodes frames in one buffer: half a megabyte of fresh memory per commit is not free."""

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
        short: bool = True,
        deflate: bool = True,
    ) -> bytearray:
        """The bytes of one commit, for this place only. They are valid until the next call.

        `count` is the number of positions that it covers, if that is not the number of its events. `short` allows a
        short frame, if the commit fits into one, and `deflate` allows compressed content in it.
        """
        if len(self._buffer) > BUFFER_BYTES_KEPT:
            self._buffer = bytearray()
        count, place = len(rows) if count is None else count, _place(identity, offset)
        body = None
        if short and len(rows) == count == 1 and not side and first_position <= SHORT_POSITION_MAX:
            body = _short_body(_row(rows[0]), recorded=recorded, deflate=deflate)
        if body is not None:
            length = self._encode(body, SHORT_HEADER_SIZE)
            split = first_position >> 32, first_position & 0xFFFFFFFF
            return self._closed(_SHORT_FIELDS.pack(SHORT_MAGIC, length, *split), place)
        length = self._encode((recorded, rows, side), HEADER_SIZE)
        return self._closed(_FIELDS.pack(MAGIC, length, first_position, count), place)

    def _encode(self, body: tuple[Any, ...], header_size: int) -> int:
        _encoder.encode_into(body, self._buffer, header_size)
        length = len(self._buffer) - header_size
        if not 0 < length <= BODY_BYTES_MAX:
            raise ValueError("a frame's body must have between 1 byte and 1 GiB")
        return length

    def _closed(self, fields: bytes, place: bytes) -> bytearray:
        """The frame with its two checks."""
        buffer = self._buffer
        buffer[: len(fields) + 4] = fields + zlib.crc32(fields, zlib.crc32(place)).to_bytes(4, "big")
        digest = hashlib.sha256(place)
        digest.update(buffer)
        buffer += digest.digest()
        return buffer


def _row(row: Row | Event) -> Row:
    return row.row if isinstance(row, Event) else row


def _short_body(row: Row, *, recorded: int, deflate: bool) -> tuple[Any, ...] | None:
    """The body of a short frame for this event; None if it needs a full frame."""
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
    plain = _encoder.encode(content)
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    packed = packing.compress(plain) + packing.flush()
    return packed if len(packed) < len(plain) else content


def decode_header(identity: bytes, data: bytes, *, offset: int, at: int = 0) -> Frame | None:
    """The frame that a valid header at `data[at:]` announces at this offset of its segment; None if it is not one."""
    if len(data) - at < HEADER_SIZE:
        return None
    magic, length, first, count, check = _HEADER.unpack_from(data, at)
    if magic == SHORT_MAGIC:
        return _decode_short_header(identity, data, offset=offset, at=at)
    if magic != MAGIC or not 0 < length <= BODY_BYTES_MAX:
        return None
    if zlib.crc32(data[at : at + _FIELDS.size], zlib.crc32(_place(identity, offset))) != check:
        return None
    return Frame(offset, offset + HEADER_SIZE + length + TRAILER_SIZE, first, first + count)


def _decode_short_header(identity: bytes, data: bytes, *, offset: int, at: int) -> Frame | None:
    _, length, upper, lower, check = _SHORT.unpack_from(data, at)
    if not length or zlib.crc32(data[at : at + _SHORT_FIELDS.size], zlib.crc32(_place(identity, offset))) != check:
        return None
    position = upper << 32 | lower
    return Frame(offset, offset + SHORT_HEADER_SIZE + length + TRAILER_SIZE, position, position + 1, is_short=True)


def body_of(identity: bytes, data: bytes, frame: Frame, *, at: int = 0) -> bytes | None:
    """The verified body of a frame whose bytes begin at `data[at:]`; None if they are not what was written."""
    size = frame.end - frame.offset
    if len(data) - at < size:
        return None
    split = at + frame.header_size
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


def decode_body(frame: Frame, body: bytes) -> Body:
    """The events and side records of a frame's verified body."""
    if not frame.is_short:
        return _unpack(body)
    recorded, event = _decode_short_body(body, position=frame.first_position)
    return Body(recorded, [event], [])


def decode_side(frame: Frame, body: bytes) -> list[Any]:
    """The side records of a frame's verified body; its events are not decoded."""
    return [] if frame.is_short else _unpack_side(body)[2]


def decode_events_with(frame: Frame, body: bytes, id_: bytes) -> Iterator[Event]:
    """The events of a frame's verified body whose bytes contain an id; the others are not decoded."""
    if frame.is_short:
        return iter([_decode_short_body(body, position=frame.first_position)[1]])
    return (_unpack_event(raw) for raw in _unpack_raw(body)[1] if id_ in bytes(raw))


def _decode_short_body(body: bytes, *, position: int) -> tuple[int, Event]:
    """When the event of a short frame was recorded, and the event."""
    found = _unpack_short(body)
    content = found.content
    if isinstance(content, bytes):
        content = _unpack_content(zlib.decompress(content, -zlib.MAX_WBITS))
    payload, meta = content
    checksum = hashlib.sha256(payload).digest() if found.checksum is None else found.checksum
    fields = (position, found.stream, found.seq, found.type, found.version, found.id, found.time, payload, meta)
    return found.time + found.lag, Event(*fields, checksum, found.link, found.signature)
