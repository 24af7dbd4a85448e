"""The header of a segment file, 132 bytes, big-endian.

    magic 8 "TALLYSEG" | format u16 | generation u16 | store id 16 | segment id 16 | first position u64
    | created ns u64 | previous segment id 16 | previous end u64 | profile 16 (NUL-padded) | SHA-256 of all before

`previous end` is where the segment before this one ends: bytes of it past that offset are not part of the log.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import struct

import msgspec

from tallystick import errors

MAGIC = b"TALLYSEG"
FORMAT = 1
CURRENT = "current.log"
SEALED = re.compile(r"\d{4}-\d{2}-\d{2}_\d{3,}\.log")
NO_SEGMENT = bytes(16)

_FIELDS = struct.Struct(">8sHH16s16sQQ16sQ16s")
SIZE = _FIELDS.size + 32


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a segment says of itself."""

    store_id: bytes
    segment_id: bytes
    first_position: int
    created: int
    previous_id: bytes = NO_SEGMENT
    previous_end: int = 0
    profile: str = "plain"
    generation: int = 0


class BadHeader(Exception):
    """A file in the place of a segment does not begin with a valid header."""


def encode(header: Header) -> bytes:
    """The header's bytes."""
    fields = _FIELDS.pack(
        MAGIC,
        FORMAT,
        header.generation,
        header.store_id,
        header.segment_id,
        header.first_position,
        header.created,
        header.previous_id,
        header.previous_end,
        header.profile.encode(),
    )
    return fields + hashlib.sha256(fields).digest()


def decode(data: bytes, *, path: str) -> Header:
    """The header in a segment's first bytes."""
    fields, check = data[: _FIELDS.size], data[_FIELDS.size : SIZE]
    if len(data) < SIZE or not fields.startswith(MAGIC) or hashlib.sha256(fields).digest() != check:
        raise BadHeader("the segment header is damaged")
    (_, number, generation, store_id, segment_id, first, created, previous_id, previous_end, profile) = _FIELDS.unpack(
        fields
    )
    if number > FORMAT:
        raise errors.NewerFormat(path=path, found=number, known=FORMAT)
    return Header(
        store_id=store_id,
        segment_id=segment_id,
        first_position=first,
        created=created,
        previous_id=previous_id,
        previous_end=previous_end,
        profile=profile.rstrip(b"\0").decode(),
        generation=generation,
    )


def sealed_name(taken: set[str], *, time_ns: int) -> str:
    """A free name for a segment that is sealed now. Names that differ only in case do not occur."""
    day = datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC).strftime("%Y-%m-%d")
    number = 1
    while (name := f"{day}_{number:03d}.log") in taken:
        number += 1
    return name
