"""The connections of a handle that write: one transaction at a time over all of them, and none after a disk failure."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.process import OwnerProcess


class WriteTurn:
    """The lock under which the writers of a handle take turns, and the failure that ended writing, if any."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failure: errors.StoreFailed | None = None
        self.connections: list[sqlite3.Connection] = []

    def poison(self, operation: str, reason: str) -> None:
        """Close every writing connection of the handle. Nothing more is written through it."""
        self.failure = errors.StoreFailed(operation=operation, reason=reason)
        for connection in self.connections:
            with suppress(sqlite3.Error):
                connection.close()


class SqliteWriter:
    """Transactions over one connection. An I/O error poisons it: then only a new handle can write again."""

    def __init__(
        self, connection: sqlite3.Connection, *, path: str, busy_ms: int, turn: WriteTurn | None = None
    ) -> None:
        self._connection = connection
        self._path = path
        self._busy_ms = busy_ms
        self._process = OwnerProcess()
        self.turn = turn or WriteTurn()
        self.turn.connections.append(connection)
        self._closed = False

    @contextmanager
    def transaction(self, *, needed_bytes: Callable[[], int] = lambda: 0) -> Iterator[sqlite3.Connection]:
        """An immediate transaction: committed and on disk when the block ends, rolled back when it raises."""
        self._process.require()
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
    def exclusively(self, operation: str) -> Iterator[sqlite3.Connection]:
        """The connection outside of a transaction, while nothing else writes through the handle."""
        self._process.require()
        with self.turn.lock:
            self._require_sound()
            try:
                yield self._connection
            except sqlite3.Error as problem:
                raise self._failed(problem, operation, lambda: 0) from problem

    def empty_wal(self, connection: sqlite3.Connection, *, wait_ms: int) -> bool:
        """Checkpoint and truncate the write-ahead log. False if a reader or another writer is in the way."""
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
        """Close the connection, in its own process only. With `checkpoint`, checkpoint the write-ahead log first."""
        if not self._process.is_current:
            return
        with self.turn.lock:
            if self._closed:
                return
            self._closed = True
            self.turn.connections.remove(self._connection)
            if self.turn.failure is not None:
                return
            with suppress(sqlite3.Error):  # a reader may be in the way; then the next handle to close does it
                if checkpoint:
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with suppress(sqlite3.Error):
                self._connection.close()
