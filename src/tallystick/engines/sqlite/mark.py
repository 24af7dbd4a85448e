"""The mark: the highest position that was acknowledged, in a small file beside the store, `<file>.mark`.

    64 slots of 64 bytes: magic 4 "TMRK" | state u8, 1 open, 0 closed | store id 16 | head u64 | CRC-32 u32 | zeros

SQLite cannot tell a write-ahead log that lost its end from one that never had more. So after each commit the process
notes in the mark how far the log goes, before it acknowledges. The first process to open the store empties all slots
and uses slot 0; one that joins uses another slot, so that no process takes back what another has noted. The highest
head counts. The mark may lag, it never leads: it is written after the commit is on disk.

It is synced at opening, at closing and every thousand commits, and not at each commit, which would take twice the time.
So after a kill it is exact. After a loss of power it knows what was committed some seconds before at the latest.
"""

from __future__ import annotations

import random
import struct
import threading
import zlib
from contextlib import suppress

import msgspec

from tallystick.engines.sqlite import wal
from tallystick.store.filesystem import File, write_fully

SLOTS, SLOT_BYTES = 64, 64
SYNC_EVERY = 1000
_MAGIC = b"TMRK"
_FIELDS = struct.Struct(">4sB16sQ")
_SIZE = _FIELDS.size + 4
_OPEN, _CLOSED = 1, 0


class Mark(msgspec.Struct, frozen=True):
    """Positions up to `head` were acknowledged. `is_open`: nobody has closed the store since."""

    store_id: bytes
    head: int
    is_open: bool


def path_of(path: str) -> str:
    """Where the mark of a store is."""
    return f"{path}.mark"


def encode(mark: Mark) -> bytes:
    """The bytes of one slot."""
    fields = _FIELDS.pack(_MAGIC, _OPEN if mark.is_open else _CLOSED, mark.store_id, mark.head)
    return (fields + zlib.crc32(fields).to_bytes(4, "big")).ljust(SLOT_BYTES, b"\0")


def decode(data: bytes) -> Mark | None:
    """The valid slot with the highest head; None if there is none."""
    slots = [_slot(data[at : at + _SIZE]) for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES)]
    return max((slot for slot in slots if slot is not None), key=lambda slot: slot.head, default=None)


def _slot(data: bytes) -> Mark | None:
    if len(data) < _SIZE or zlib.crc32(data[: _FIELDS.size]).to_bytes(4, "big") != data[_FIELDS.size :]:
        return None
    magic, state, store_id, head = _FIELDS.unpack(data[: _FIELDS.size])
    return Mark(store_id, head, state == _OPEN) if magic == _MAGIC else None


def load(path: str) -> Mark | None:
    """The mark of the store at `path`; None if there is none, or none that can be read."""
    try:
        with open(path_of(path), "rb") as file:
            return decode(file.read(SLOTS * SLOT_BYTES))
    except FileNotFoundError:
        return None


class MarkFile:
    """The mark as one process writes it. All of its handles share one."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._slot = random.randrange(1, SLOTS)
        self._mark = Mark(b"", -1, True)
        self._count = 0

    def begin(self, store_id: bytes, head: int) -> None:
        """Note, durably, that the store is open. For the first process that opens it, before its first commit."""
        self._slot = 0
        self._replace(Mark(store_id, head, True))

    def advance(self, store_id: bytes, head: int) -> None:
        """Note that everything up to `head` is on disk."""
        with self._lock:
            if head <= max(self._mark.head, self._slot and self._noted()):
                return
            self._mark = Mark(store_id, head, True)
            write_fully(self._file, self._slot * SLOT_BYTES, encode(self._mark))
            self._count += 1
            if self._count % SYNC_EVERY == 0:
                self._file.sync()

    def finish(self, store_id: bytes, head: int) -> None:
        """Note, durably, that the store was closed and the write-ahead log is empty."""
        self._replace(Mark(store_id, head, False))

    def finish_if_empty(self, store_id: bytes, path: str) -> None:
        """The same, if the write-ahead log of the store at this path is empty."""
        with suppress(OSError):
            marked = load(path)
            if marked is not None and wal.look(f"{path}-wal").bytes == 0:
                self.finish(store_id, marked.head)

    def _noted(self) -> int:
        """The head in our slot, which another process may have chosen too."""
        noted = _slot(self._file.read_at(self._slot * SLOT_BYTES, _SIZE))
        return noted.head if noted is not None else 0

    def _replace(self, mark: Mark) -> None:
        with self._lock:
            self._mark = mark
            write_fully(self._file, 0, encode(mark).ljust(SLOTS * SLOT_BYTES, b"\0"))
            self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
