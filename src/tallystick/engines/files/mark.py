"""The synced mark: how far the log is known to be on disk. Two slots of 512 bytes, written in turn.

    magic 4 "TMRK" | counter u64 | segment id 16 | end u64 | next position u64 | CRC-32 u32

It is written after every sync of the log and synced itself only at rotation and close: it may lag, it must not lead.
The valid slot with the higher counter counts, so that a torn write costs one step and not the mark. That step may be an
acknowledged event, so a reader trusts a mark only if both of its slots are valid; otherwise it looks for the end of the
log as recovery does.
"""

from __future__ import annotations

import struct
from contextlib import closing

import msgspec

from tallystick.engines import mark_slots
from tallystick.engines.mark_slots import MarkFile
from tallystick.store.filesystem import FileSystem, replace_file, write_fully

NAME = "synced"
SLOT_BYTES = 512
LOOKS_MAX = 3
_FIELDS = struct.Struct(">4sQ16sQQ")


class SegmentMark(msgspec.Struct, frozen=True):
    """Everything in this segment before `end` is on disk; the next position is `next_position`."""

    segment_id: bytes
    end: int
    next_position: int
    counter: int = 0


def encode(mark: SegmentMark) -> bytes:
    """The bytes of one slot, without its padding."""
    return mark_slots.seal(_FIELDS, mark.counter, mark.segment_id, mark.end, mark.next_position)


def decode(data: bytes) -> SegmentMark | None:
    """The newest valid mark of the file's bytes; None if neither slot holds one."""
    return max(_valid(data), key=lambda slot: slot.counter, default=None)


def _valid(data: bytes) -> list[SegmentMark]:
    slots = [mark_slots.unseal(_FIELDS, data[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    return [
        SegmentMark(segment_id, end, next_position, counter)
        for counter, segment_id, end, next_position in filter(None, slots)
    ]


def load(files: FileSystem, directory: str) -> SegmentMark | None:
    """The mark of a log; None if it cannot be read."""
    return decode(_read(files, directory))


def load_whole(files: FileSystem, directory: str) -> SegmentMark | None:
    """The mark of a log, if nothing is wrong with it. A slot that is being written now is read again."""
    for _ in range(LOOKS_MAX):
        data = _read(files, directory)
        if len(_valid(data)) == 2:
            return decode(data)
    return None


def _read(files: FileSystem, directory: str) -> bytes:
    try:
        file = files.open_read(f"{directory}/{NAME}")
    except FileNotFoundError:
        return b""
    with closing(file):
        return file.read_at(0, 2 * SLOT_BYTES)


class SegmentMarkFile(MarkFile):
    """The writer's side of the mark."""

    def __init__(self, files: FileSystem, directory: str, start: SegmentMark) -> None:
        """Put a mark in place, durably."""
        self._counter = start.counter
        slot = encode(start).ljust(SLOT_BYTES, b"\0")
        replace_file(files, directory, NAME, slot + slot)
        self.file = files.open_write(f"{directory}/{NAME}")
        super().__init__(self.file)

    def advance(self, segment_id: bytes, end: int, next_position: int) -> None:
        """Note that the log is on disk up to here. Called after the sync, never before."""
        self._counter += 1
        slot = mark_slots.seal(_FIELDS, self._counter, segment_id, end, next_position)
        write_fully(self.file, SLOT_BYTES * (self._counter % 2), slot)
