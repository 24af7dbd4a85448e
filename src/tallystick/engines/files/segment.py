"""The header of a segment file, big-endian. Every format begins with the same 132 bytes:

    magic 8 "TALLYSEG" | format u16 | generation u16 | store id 16 | segment id 16 | first position u64
    | created ns u64 | previous segment id 16 | previous end u64 | profile 16 (NUL-padded) | SHA-256 of all before

`previous end` is where the segment before this one ends: bytes of it past that offset are not part of the log.

Format 1 is a segment as it was written, generation 0. Format 2 is one that was rewritten: pruned, erased, compressed or
refilled. It is written once, whole, and its header says where it ends, in 56 more bytes:

    generation, its upper half u16 | end u64 | next position u64 | encoding u16 | erased u32 | SHA-256 of all before

Formats 3 and 4 are the same as 1 and 2, and may hold short frames (frame.py). New and rewritten segments have these
formats; a segment of format 1 that is written to keeps its format until it is sealed.

Invariants:
- The segment id is the same in all generations, because headers and the synced mark refer to it. The identity differs:
  frames, indexes and open files are bound to it, so that no part of one generation is taken for a part of another.
- `erased` counts the positions whose erasure the segment knows. If more were erased since, it must be rewritten.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import struct

import msgspec

from tallystick import errors

MAGIC = b"TALLYSEG"
FORMAT, REWRITTEN_FORMAT = 3, 4
_WITHOUT_SHORT_FRAMES = 2  # the formats without short frames have numbers lower by this
CURRENT = "current.log"
SEALED = re.compile(r"\d{4}-\d{2}-\d{2}_\d{3,}\.log")
STAGED = re.compile(SEALED.pattern + r"\.tmp")
NO_SEGMENT = bytes(16)
PLAIN, GZIP = 0, 1  # encodings
GENERATION_MAX = (1 << 32) - 1

_FIELDS = struct.Struct(">8sHH16s16sQQ16sQ16s")
_ENDING = struct.Struct(">HQQHI")
SIZE = _FIELDS.size + 32
SIZE_MAX = SIZE + _ENDING.size + 32


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewritten segment says of its end. Offsets count uncompressed bytes, whatever the encoding."""

    end: int
    next_position: int
    encoding: int = PLAIN
    erased: int = 0


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a segment."""

    store_id: bytes
    segment_id: bytes
    first_position: int
    created: int
    previous_id: bytes = NO_SEGMENT
    previous_end: int = 0
    profile: str = "plain"
    generation: int = 0
    ending: Ending | None = None
    short_frames: bool = True

    @property
    def identity(self) -> bytes:
        """What distinguishes this generation of this segment from every other one."""
        return identity_of(self.segment_id, self.generation)

    @property
    def size(self) -> int:
        """Where the first frame begins."""
        return SIZE if self.ending is None else SIZE_MAX


class BadHeader(Exception):
    """A file with the name of a segment does not begin with a valid header."""


def identity_of(segment_id: bytes, generation: int) -> bytes:
    """The identity of a generation of a segment."""
    if generation == 0:
        return segment_id
    return hashlib.sha256(segment_id + generation.to_bytes(4, "big")).digest()[:16]


def encode(header: Header) -> bytes:
    """The header's bytes."""
    ending = header.ending
    number = FORMAT if ending is None else REWRITTEN_FORMAT
    fields = _FIELDS.pack(
        MAGIC,
        number if header.short_frames else number - _WITHOUT_SHORT_FRAMES,
        header.generation & 0xFFFF,
        header.store_id,
        header.segment_id,
        header.first_position,
        header.created,
        header.previous_id,
        header.previous_end,
        header.profile.encode(),
    )
    data = fields + hashlib.sha256(fields).digest()
    if ending is None:
        return data
    data += _ENDING.pack(header.generation >> 16, ending.end, ending.next_position, ending.encoding, ending.erased)
    return data + hashlib.sha256(data).digest()


def decode(data: bytes, *, path: str) -> Header:
    """The header in a segment's first bytes."""
    fields, check = data[: _FIELDS.size], data[_FIELDS.size : SIZE]
    if len(data) < SIZE or not fields.startswith(MAGIC) or hashlib.sha256(fields).digest() != check:
        raise BadHeader("the segment header is damaged")
    (_, number, generation, store_id, segment_id, first, created, previous_id, previous_end, profile) = _FIELDS.unpack(
        fields
    )
    if number > REWRITTEN_FORMAT:
        raise errors.NewerFormat(path=path, found=number, known=REWRITTEN_FORMAT)
    short_frames = number >= FORMAT
    is_rewritten = number == (REWRITTEN_FORMAT if short_frames else REWRITTEN_FORMAT - _WITHOUT_SHORT_FRAMES)
    upper, ending = _ending(data) if is_rewritten else (0, None)
    return Header(
        store_id=store_id,
        segment_id=segment_id,
        first_position=first,
        created=created,
        previous_id=previous_id,
        previous_end=previous_end,
        profile=profile.rstrip(b"\0").decode(),
        generation=upper << 16 | generation,
        ending=ending,
        short_frames=short_frames,
    )


def _ending(data: bytes) -> tuple[int, Ending]:
    split = SIZE + _ENDING.size
    if len(data) < SIZE_MAX or hashlib.sha256(data[:split]).digest() != data[split:SIZE_MAX]:
        raise BadHeader("the segment header is damaged")
    upper, end, next_position, encoding, erased = _ENDING.unpack_from(data, SIZE)
    if encoding not in (PLAIN, GZIP):
        raise BadHeader(f"the segment has the unknown encoding {encoding}")
    return upper, Ending(end=end, next_position=next_position, encoding=encoding, erased=erased)


def sealed_name(taken: set[str], *, time_ns: int) -> str:
    """A free name for a segment that is sealed now. Names never differ only in case."""
    day = datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC).strftime("%Y-%m-%d")
    number = 1
    while (name := f"{day}_{number:03d}.log") in taken:
        number += 1
    return name
