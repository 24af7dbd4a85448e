"""Connections that only read: borrowed by whichever thread reads, so that reads go on while a commit is running."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.process import Birthplace

_IDLE_MAX = 8


class Readers:
    """A few idle connections, more on demand."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, path: str, busy_ms: int) -> None:
        self._connect = connect
        self._path = path
        self._busy_ms = busy_ms
        self._birthplace = Birthplace()
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._generation = 0
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read. Its errors come out translated."""
        self._birthplace.require()
        connection: sqlite3.Connection | None = None
        sound, generation = False, self._generation
        try:
            connection = self._take()
            yield connection
            sound = True
        except sqlite3.Error as problem:
            raise translate.of_read(problem, path=self._path, waited_ms=self._busy_ms) from problem
        except (UnicodeDecodeError, OverflowError) as problem:  # the driver's, of a text or number that nobody wrote
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

    def _take(self) -> sqlite3.Connection:
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
        """Go on with connections that have read nothing yet: each one keeps pages that the file may have lost since.

        A new one is there before the others go: a file that nobody has open would be recovered by the next to open it,
        and where its write-ahead log was damaged meanwhile, that would set it back.
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
        """Close what is idle; what is borrowed is closed when it comes back."""
        if not self._birthplace.is_here:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
