"""`synced`: how far a log is known to be on disk. Two slots of 128 bytes, written in turn and never moved.

    {"end":4711,"seq":12,"turn":9,"whole":"<16 hex>"} and spaces up to a newline

It is written after every sync of the log and synced itself at close: it may lag, it must not lead. The valid slot with
the higher turn counts, so that a torn write costs one step and not the mark. Readers in other processes stop here.
"""

from __future__ import annotations

import hashlib

import msgspec

from tallystick.store.filesystem import File, FileSystem, write_fully

NAME = "synced"
SLOT_BYTES = 128


class Mark(msgspec.Struct, frozen=True):
    """Everything before `end` is on disk, and `seq` is the last event there. `alone`: the other slot is unreadable."""

    end: int
    seq: int
    turn: int
    alone: bool = False


class _Slot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: int
    seq: int
    turn: int
    whole: str


NOTHING = Mark(0, 0, 0)
_decode = msgspec.json.Decoder(_Slot).decode


def encode(mark: Mark) -> bytes:
    """The bytes of one slot."""
    body = f'{{"end":{mark.end},"seq":{mark.seq},"turn":{mark.turn}'
    text = f'{body},"whole":"{_whole(body.encode())}"}}'
    return text.ljust(SLOT_BYTES - 1).encode() + b"\n"


def decode(data: bytes) -> Mark | None:
    """The newest valid mark of the file's bytes; None if neither slot holds one."""
    slots = [_slot(data[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    newest = max((slot for slot in slots if slot is not None), key=lambda slot: slot.turn, default=None)
    return newest if newest is None or None not in slots else Mark(newest.end, newest.seq, newest.turn, alone=True)


def _slot(data: bytes) -> Mark | None:
    try:
        slot = _decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    mark = Mark(slot.end, slot.seq, slot.turn)
    return mark if len(data) == SLOT_BYTES and encode(mark) == data else None


def _whole(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


class MarkFile:
    """The mark of one log, open for reading or for both."""

    def __init__(self, file: File) -> None:
        self._file = file

    def load(self) -> Mark | None:
        """The mark as it is now; None if there is none that can be read."""
        return decode(self._file.read_at(0, 2 * SLOT_BYTES))

    def advance(self, mark: Mark) -> None:
        """Note that the log is on disk up to here. Called after the sync of the log, never before."""
        write_fully(self._file, SLOT_BYTES * (mark.turn % 2), encode(mark))

    def sync(self) -> None:
        """Make the mark itself durable."""
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def create(files: FileSystem, directory: str) -> None:
    """Put an empty mark in place, durably but for its name."""
    file = files.create(f"{directory}/{NAME}")
    try:
        write_fully(file, 0, encode(NOTHING) * 2)
        file.sync()
    finally:
        file.close()
