"""The mark: the highest position that was acknowledged, in a small file next to the store, `<file>.mark`.

    64 slots of 64 bytes: magic 4 "TMRK" | state u8, 1 open, 0 closed | store id 16 | head u64 | CRC-32 u32 | zeros

SQLite cannot tell a write-ahead log that lost its end from one that never had more. So after each commit the process
notes in the mark how far the log goes, before it acknowledges. The first process to open the store clears all slots
and uses slot 0. One that joins uses another slot, so that no process overwrites the note of another. The highest head
counts. The mark may lag, but never leads: it is written after the commit is on disk.

It is synced at opening, at closing and every thousand commits. A sync at each commit would double the time. So after a
kill it is exact. After a loss of power it lacks the commits of the last seconds at most.
"""

from __future__ import annotations

import random
import struct
import threading
from contextlib import suppress

import msgspec

from tallystick.engines import mark_slots
from tallystick.engines.mark_slots import MarkFile
from tallystick.engines.sqlite import wal
from tallystick.store.filesystem import File, write_fully

SLOTS, SLOT_BYTES = 64, 64
SYNC_EVERY = 1000
_FIELDS = struct.Struct(">4sB16sQ")
_OPEN, _CLOSED = 1, 0


class StoreMark(msgspec.Struct, frozen=True):
    """Positions up to `head` were acknowledged. `is_open`: nobody has closed the store since."""

    store_id: bytes
    head: int
    is_open: bool


def path_of(path: str) -> str:
    """Where the mark of a store is."""
    return f"{path}.mark"


def encode(mark: StoreMark) -> bytes:
    """The bytes of one slot."""
    slot = mark_slots.seal(_FIELDS, _OPEN if mark.is_open else _CLOSED, mark.store_id, mark.head)
    return slot.ljust(SLOT_BYTES, b"\0")


def decode(data: bytes) -> StoreMark | None:
    """The valid slot with the highest head; None if no slot is valid."""
    valid = mark_slots.valid_slots(data, _decode_slot, slots=SLOTS, slot_bytes=SLOT_BYTES)
    return max(valid, key=lambda slot: slot.head, default=None)


def _decode_slot(data: bytes) -> StoreMark | None:
    values = mark_slots.unseal(_FIELDS, data)
    if values is None:
        return None
    state, store_id, head = values
    return StoreMark(store_id, head, state == _OPEN)


def load(path: str) -> StoreMark | None:
    """The mark of the store at `path`; None if it is missing or cannot be read."""
    try:
        with open(path_of(path), "rb") as file:
            return decode(file.read(SLOTS * SLOT_BYTES))
    except FileNotFoundError:
        return None


class StoreMarkFile(MarkFile):
    """The mark as one process writes it. All of its handles share one."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._lock = threading.Lock()
        self._slot = random.randrange(1, SLOTS)
        self._mark = StoreMark(b"", -1, True)
        self._count = 0

    def begin(self, store_id: bytes, head: int) -> None:
        """Note durably that the store is open. Called by the first process that opens it, before its first commit."""
        self._slot = 0
        self._replace(StoreMark(store_id, head, True))

    def advance(self, store_id: bytes, head: int) -> None:
        """Note that everything up to `head` is on disk."""
        with self._lock:
            if head <= max(self._mark.head, self._slot and self._noted()):
                return
            self._mark = StoreMark(store_id, head, True)
            self._write_slot(self._slot, encode(self._mark), SLOT_BYTES)
            self._count += 1
            if self._count % SYNC_EVERY == 0:
                self._file.sync()

    def finish(self, store_id: bytes, head: int) -> None:
        """Note durably that the store was closed and the write-ahead log is empty."""
        self._replace(StoreMark(store_id, head, False))

    def finish_if_empty(self, store_id: bytes, path: str) -> None:
        """The same, if the write-ahead log of the store at this path is empty."""
        with suppress(OSError):
            marked = load(path)
            if marked is not None and wal.inspect(f"{path}-wal").bytes == 0:
                self.finish(store_id, marked.head)

    def _noted(self) -> int:
        """The head in our slot, which another process may have chosen too."""
        noted = _decode_slot(self._file.read_at(self._slot * SLOT_BYTES, SLOT_BYTES))
        return noted.head if noted is not None else 0

    def _replace(self, mark: StoreMark) -> None:
        with self._lock:
            self._mark = mark
            write_fully(self._file, 0, encode(mark).ljust(SLOTS * SLOT_BYTES, b"\0"))
            self._file.sync()
