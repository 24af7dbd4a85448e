"""`synced`: how far a log is known to be synced. Two slots of 128 bytes, written alternately, at fixed offsets.

    {"end":4711,"seq":12,"turn":9,"whole":"<16 hex>"} and spaces up to a newline

It is written after every sync of the log, and synced at close. So it may lag, but it is never ahead. The valid slot
with the higher turn counts, so that a torn write loses one step and not the mark. Readers in other processes stop here.
"""

from __future__ import annotations

import hashlib

import msgspec

from tallystick.engines import mark_slots
from tallystick.engines.mark_slots import MarkFile
from tallystick.store.filesystem import FileSystem, write_fully

NAME = "synced"
SLOT_BYTES = 128


class StreamMark(msgspec.Struct, frozen=True):
    """Everything before `end` is synced; `seq` is the last event there. `alone`: the other slot is unreadable."""

    end: int
    seq: int
    turn: int
    alone: bool = False


class _Slot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: int
    seq: int
    turn: int
    whole: str


NOTHING = StreamMark(0, 0, 0)
_decode = msgspec.json.Decoder(_Slot).decode


def encode(mark: StreamMark) -> bytes:
    """The bytes of one slot."""
    body = f'{{"end":{mark.end},"seq":{mark.seq},"turn":{mark.turn}'
    text = f'{body},"whole":"{_whole(body.encode())}"}}'
    return text.ljust(SLOT_BYTES - 1).encode() + b"\n"


def decode(data: bytes) -> StreamMark | None:
    """The newest valid mark in the bytes of the file; None if neither slot has one."""
    valid = mark_slots.valid_slots(data, _decode_slot, slots=2, slot_bytes=SLOT_BYTES)
    newest = max(valid, key=lambda slot: slot.turn, default=None)
    return newest if newest is None or len(valid) == 2 else msgspec.structs.replace(newest, alone=True)


def _decode_slot(data: bytes) -> StreamMark | None:
    try:
        slot = _decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    mark = StreamMark(slot.end, slot.seq, slot.turn)
    return mark if len(data) == SLOT_BYTES and encode(mark) == data else None


def _whole(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


class StreamMarkFile(MarkFile):
    """The mark of one log, open for reading or for both."""

    def load(self) -> StreamMark | None:
        """The current mark; None if neither slot can be read."""
        return decode(self._file.read_at(0, 2 * SLOT_BYTES))

    def advance(self, mark: StreamMark) -> None:
        """Record that the log is synced up to here. Call it after the sync of the log, never before."""
        self._write_slot(mark.turn % 2, encode(mark), SLOT_BYTES)


def create(files: FileSystem, directory: str) -> None:
    """Create an empty mark. Its bytes are synced, its name is not."""
    file = files.create(f"{directory}/{NAME}")
    try:
        write_fully(file, 0, encode(NOTHING) * 2)
        file.sync()
    finally:
        file.close()
