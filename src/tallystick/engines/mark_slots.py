"""Marks: small files next to a log that say how far it was synced or acknowledged, in slots of a fixed size.

A slot is overwritten in place and never moves, so a torn write costs that slot and no other. A binary slot is sealed:

    magic 4 "TMRK" | fields | CRC-32 u32 of everything before it
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from tallystick.store.filesystem import File, write_fully

MAGIC = b"TMRK"
_CRC_BYTES = 4
M = TypeVar("M")


def seal(fields: struct.Struct, *values: Any) -> bytes:
    """The bytes of a slot with these values after the magic, without its padding."""
    packed = fields.pack(MAGIC, *values)
    return packed + zlib.crc32(packed).to_bytes(_CRC_BYTES, "big")


def unseal(fields: struct.Struct, slot: bytes) -> tuple[Any, ...] | None:
    """The values of a sealed slot; None if it is not what was written."""
    packed, check = slot[: fields.size], slot[fields.size : fields.size + _CRC_BYTES]
    if len(check) < _CRC_BYTES or zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") != check:
        return None
    magic, *values = fields.unpack(packed)
    return tuple(values) if magic == MAGIC else None


def valid_slots(data: bytes, decode: Callable[[bytes], M | None], *, slots: int, slot_bytes: int) -> list[M]:
    """The slots of a mark's bytes that can be decoded."""
    found = (decode(data[at : at + slot_bytes]) for at in range(0, slots * slot_bytes, slot_bytes))
    return [mark for mark in found if mark is not None]


class MarkFile:
    """A mark that is open."""

    def __init__(self, file: File) -> None:
        self._file = file

    def _write_slot(self, number: int, slot: bytes, slot_bytes: int) -> None:
        write_fully(self._file, number * slot_bytes, slot)

    def sync(self) -> None:
        """Make the mark itself durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
