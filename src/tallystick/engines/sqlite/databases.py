"""Databases that record damage, that are read without locks, and that may lack their last changes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition

from tallystick import errors
from tallystick.engines.sqlite import maintenance
from tallystick.engines.sqlite.opening_inspection import IMMUTABLE
from tallystick.engines.sqlite.store_file import OpenedStore
from tallystick.engines.tables.database import Database
from tallystick.store.damage import DamageRecord, problem_of, put_on_record
from tallystick.store.page import Hole

_POLL_S = 0.02


class WatchedDatabase(Database):
    """A file. Damage that a read meets goes on record."""

    record: DamageRecord | None = None

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._recorded(super().reading())

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._recorded(super().snapshot())

    @contextmanager
    def _recorded(self, reading: AbstractContextManager[sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        try:
            with reading as connection:
                yield connection
        except errors.Damaged as damage:
            if self.record is not None:
                put_on_record(self.record, [problem_of(Hole(damage.first, damage.last, damage.reason))])
            raise


class UnlockedDatabase(WatchedDatabase):
    """A file that is read without locks, because nothing can be created next to it. Refused once it changed."""

    def __init__(self, path: str, *, readonly_reason: str, busy_ms: int) -> None:
        super().__init__(path, None, readonly_reason=readonly_reason, busy_ms=busy_ms, mode=IMMUTABLE)
        self._seen = _state_of(path)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._unchanged(super().reading())

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._unchanged(super().snapshot())

    @contextmanager
    def _unchanged(self, reading: AbstractContextManager[sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        with reading as connection:
            yield connection
            if _state_of(self.path) != self._seen:
                reason = "it changed while it was read without locks: open it again"
                raise errors.ReadFailed(path=self.path, reason=reason)


class OutdatedDatabase(Database):
    """Tables whose last changes were lost with the write-ahead log: their rows may be older than acknowledged."""

    def __init__(self, path: str, *, reason: str, busy_ms: int) -> None:
        super().__init__(path, None, readonly_reason=f"it is damaged ({reason})", busy_ms=busy_ms)
        self._reason = reason

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        raise errors.Damaged(first=0, last=0, reason=f"the last changes may be lost: {self._reason}")

    snapshot = reading


def _state_of(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    log = f"{path}-wal"
    return (status.st_ino, status.st_size, status.st_mtime_ns, os.path.getsize(log) if os.path.exists(log) else 0)


def database_of(opened: OpenedStore, url: str, busy_ms: int) -> WatchedDatabase:
    """The database of a handle: writable, or one that reads without locks and checkpoints nothing."""
    damage = opened.inspected.damage
    reason = f"{url} was opened for reading" if damage is None else f"it is damaged ({damage})"
    if opened.inspected.mode == IMMUTABLE:
        return UnlockedDatabase(opened.path, readonly_reason=reason, busy_ms=busy_ms)
    return WatchedDatabase(
        opened.path,
        opened.writer,
        readonly_reason=reason,
        busy_ms=busy_ms,
        connect_maintenance=lambda: maintenance.connection_to(opened.path, busy_ms=busy_ms),
    )


def page_bounds(holes: Iterable[Hole], after: int, end: int, over_holes: bool) -> tuple[int, int, tuple[Hole, ...]]:
    """The bounds of a page without a hole, and the holes between `after` and its start."""
    crossed: list[Hole] = []
    for hole in holes:
        if hole.last <= after or hole.first > end:
            continue
        if hole.first > after + 1:
            return after, hole.first - 1, tuple(crossed)
        if not over_holes:
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
        crossed.append(hole)
        after = hole.last
    return after, end, tuple(crossed)


def wait_for_head(
    head: Callable[[], int], changed: Condition, is_closed: Callable[[], bool], *, after: int, timeout: float
) -> int:
    """The head, as soon as it is past `after`, or when time is up."""
    deadline = time.monotonic() + timeout
    while True:
        found, left = head(), deadline - time.monotonic()
        if found > after or left <= 0:
            return found
        with changed:
            changed.wait(min(left, _POLL_S))  # poll: other processes commit too
            if is_closed():
                return found
