"""The connections of a handle that write: one transaction at a time over all, and none after a failure of the disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.process import Birthplace


class Turn:
    """Whose turn it is to write through a handle, and whether it still may. The writers of a handle share one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failure: errors.StoreFailed | None = None
        self.connections: list[sqlite3.Connection] = []

    def poison(self, operation: str, reason: str) -> None:
        """Nothing more is written through this handle."""
        self.failure = errors.StoreFailed(operation=operation, reason=reason)
        for connection in self.connections:
            with suppress(sqlite3.Error):
                connection.close()


class Writer:
    """Transactions over one connection. Poisoned by an I/O error: then only a new handle can write again."""

    def __init__(self, connection: sqlite3.Connection, *, path: str, busy_ms: int, turn: Turn | None = None) -> None:
        self._connection = connection
        self._path = path
        self._busy_ms = busy_ms
        self._birthplace = Birthplace()
        self.turn = turn or Turn()
        self.turn.connections.append(connection)
        self._closed = False

    @contextmanager
    def transaction(self, *, needed_bytes: Callable[[], int] = lambda: 0) -> Iterator[sqlite3.Connection]:
        """An immediate transaction: committed and on disk when the block is left, rolled back when it raises."""
        self._birthplace.require()
        with self.turn.lock:
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

    @contextmanager
    def alone(self, operation: str) -> Iterator[sqlite3.Connection]:
        """The connection outside of a transaction, while nothing else is written through the handle."""
        self._birthplace.require()
        with self.turn.lock:
            self._require_sound()
            try:
                yield self._connection
            except sqlite3.Error as problem:
                raise self._failed(problem, operation, lambda: 0) from problem

    def empty_wal(self, connection: sqlite3.Connection, *, wait_ms: int) -> bool:
        """Bring the write-ahead log home and cut it to nothing; False if a reader or another writer is in the way."""
        connection.execute(f"PRAGMA busy_timeout = {wait_ms:d}")
        try:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        finally:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_ms:d}")

    def _require_sound(self) -> None:
        failure = self.turn.failure
        if failure is not None:
            raise errors.StoreFailed(**failure.values)
        if self._closed:
            raise errors.StoreClosed()

    def _failed(self, problem: sqlite3.Error, operation: str, needed_bytes: Callable[[], int]) -> errors.TallyError:
        failed = translate.of_write(
            problem, path=self._path, operation=operation, waited_ms=self._busy_ms, needed_bytes=needed_bytes()
        )
        if translate.poisons(problem):
            self.turn.poison(operation, str(problem))
        else:
            self._roll_back()
        return failed

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as problem:
            self.turn.poison("ROLLBACK", str(problem))

    def close(self, *, checkpoint: bool) -> None:
        """Close the connection, in its own process only. `checkpoint`: first bring the write-ahead log home."""
        if not self._birthplace.is_here:
            return
        with self.turn.lock:
            if self._closed:
                return
            self._closed = True
            self.turn.connections.remove(self._connection)
            if self.turn.failure is not None:
                return
            with suppress(sqlite3.Error):  # a reader may be in the way; the log is then brought home by the next one
                if checkpoint:
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with suppress(sqlite3.Error):
                self._connection.close()
