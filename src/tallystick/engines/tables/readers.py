"""Connections that only read. Any thread borrows one for a read, so reads do not wait for a commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.process import OwnerProcess

_IDLE_MAX = 8


class Readers:
    """A few idle connections, and more when they are needed."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, path: str, busy_ms: int) -> None:
        self._connect = connect
        self._path = path
        self._busy_ms = busy_ms
        self._process = OwnerProcess()
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._generation = 0
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read. Its errors come out translated."""
        self._process.require()
        connection: sqlite3.Connection | None = None
        sound, generation = False, self._generation
        try:
            connection = self._borrow()
            yield connection
            sound = True
        except sqlite3.Error as problem:
            raise translate.of_read(problem, path=self._path, waited_ms=self._busy_ms) from problem
        except (UnicodeDecodeError, OverflowError) as problem:  # the driver's, for a text or number that nobody wrote
            raise errors.Damaged(first=0, last=0, reason=f"a value is not what was written: {problem}") from problem
        finally:
            if connection is not None:
                self._give_back(connection, sound=sound and generation == self._generation)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection on which every statement of the block sees the same state of the log."""
        with self.connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise errors.StoreClosed()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection, *, sound: bool) -> None:
        with self._lock:
            if sound and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def forget(self) -> None:
        """Replace the connections by ones that have read nothing: each keeps pages that the file may have lost since.

        A new one is opened before the others are closed: the next process to open a file that nobody has open recovers
        it, and if its write-ahead log was damaged meanwhile, commits would be lost.
        """
        with self.connection() as connection:
            connection.execute("PRAGMA schema_version").fetchone()
            fresh = self._connect()
            try:
                fresh.execute("PRAGMA schema_version").fetchone()
            except BaseException:
                fresh.close()
                raise
            with self._lock:
                self._generation += 1
                idle, self._idle = self._idle, [fresh]
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close idle connections. A borrowed one is closed when it is given back."""
        if not self._process.is_current:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
