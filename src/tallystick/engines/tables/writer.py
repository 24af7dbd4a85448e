"""The one connection of a handle that writes: one transaction at a time, and none after a failure of the disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.process import Birthplace


class Writer:
    """Transactions over one connection. Poisoned by an I/O error: then only a new handle can write again."""

    def __init__(self, connection: sqlite3.Connection, *, path: str, busy_ms: int) -> None:
        self._connection = connection
        self._path = path
        self._busy_ms = busy_ms
        self._birthplace = Birthplace()
        self._lock = threading.Lock()
        self._failure: errors.StoreFailed | None = None
        self._closed = False

    @contextmanager
    def transaction(self, *, needed_bytes: Callable[[], int] = lambda: 0) -> Iterator[sqlite3.Connection]:
        """An immediate transaction: committed and on disk when the block is left, rolled back when it raises."""
        self._birthplace.require()
        with self._lock:
            self._require_sound()
            operation = "BEGIN"
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                operation = "writing"
                yield self._connection
                operation = "COMMIT"
                self._connection.execute("COMMIT")
            except sqlite3.Error as problem:
                raise self._failed(problem, operation, needed_bytes) from problem
            except BaseException:
                self._roll_back()
                raise

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise errors.StoreFailed(**self._failure.values)
        if self._closed:
            raise errors.StoreClosed()

    def _failed(self, problem: sqlite3.Error, operation: str, needed_bytes: Callable[[], int]) -> errors.TallyError:
        failed = translate.of_write(
            problem, path=self._path, operation=operation, waited_ms=self._busy_ms, needed_bytes=needed_bytes()
        )
        if translate.poisons(problem):
            self._poison(operation, str(problem))
        else:
            self._roll_back()
        return failed

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as problem:
            self._poison("ROLLBACK", str(problem))

    def _poison(self, operation: str, reason: str) -> None:
        self._failure = errors.StoreFailed(operation=operation, reason=reason)
        with suppress(sqlite3.Error):
            self._connection.close()

    def close(self, *, checkpoint: bool) -> None:
        """Close the connection, in its own process only. `checkpoint`: first bring the write-ahead log home."""
        if not self._birthplace.is_here:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._failure is not None:
                return
            with suppress(sqlite3.Error):  # a reader may be in the way; the log is then brought home by the next one
                if checkpoint:
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with suppress(sqlite3.Error):
                self._connection.close()
