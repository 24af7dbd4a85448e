"""A SQLite file as engines use it: many readers, one writer per handle, any number of handles and processes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from tallystick import errors
from tallystick.engines.tables import schema, translate
from tallystick.engines.tables.connection import BUSY_MS, connect, create_file, enter_wal
from tallystick.engines.tables.readers import Readers
from tallystick.engines.tables.writer import SqliteWriter

CHECKED_BYTES_MAX = 256 << 20  # more would delay an opening by seconds


class Database:
    """`reading` never waits for `writing`. Without a writer it is read-only, for `readonly_reason`.

    `connect_maintenance` opens the connection that `maintaining` uses, when it is first needed. `mode` is how readers
    connect.
    """

    def __init__(
        self,
        path: str,
        writer: sqlite3.Connection | None,
        *,
        readonly_reason: str = "",
        busy_ms: int = BUSY_MS,
        connect_maintenance: Callable[[], sqlite3.Connection] | None = None,
        mode: str = "ro",
    ) -> None:
        self.path = path
        self.busy_ms = busy_ms
        self._connect_maintenance = connect_maintenance
        self._maintainer: SqliteWriter | None = None
        self._making = threading.Lock()
        self._closed = False
        self.readonly_reason = readonly_reason
        self.readers = Readers(lambda: connect(path, mode=mode, busy_ms=busy_ms), path=path, busy_ms=busy_ms)
        self.writer = None if writer is None else SqliteWriter(writer, path=path, busy_ms=busy_ms)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for one statement, or for several that need not agree."""
        return self.readers.connection()

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for several statements that must agree."""
        return self.readers.snapshot()

    def writing(self, *, needed_bytes: Callable[[], int] = lambda: 0) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction that is on disk when the block ends."""
        if self.writer is None:
            raise errors.ReadOnly(reason=self.readonly_reason)
        return self.writer.transaction(needed_bytes=needed_bytes)

    def maintaining(self, *, needed_bytes: Callable[[], int] = lambda: 0) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction that may do more than append."""
        return self.maintainer().transaction(needed_bytes=needed_bytes)

    def maintainer(self) -> SqliteWriter:
        """The writer that may do more than append. It takes turns with the appending one."""
        if self.writer is None or self._connect_maintenance is None:
            raise errors.ReadOnly(reason=self.readonly_reason)
        with self._making, translating(self.path, self.busy_ms):
            if self._closed:
                raise errors.StoreClosed()
            if self._maintainer is None:
                connection = self._connect_maintenance()
                self._maintainer = SqliteWriter(connection, path=self.path, busy_ms=self.busy_ms, turn=self.writer.turn)
            return self._maintainer

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        self.readers.close()
        with self._making:
            self._closed = True
        if self._maintainer is not None:
            self._maintainer.close(checkpoint=False)
        if self.writer is not None:
            self.writer.close(checkpoint=True)


def open_side(path: str, tables: tuple[str, ...], *, readonly: bool, busy_ms: int = BUSY_MS) -> Database:
    """The small database next to the log of an engine without tables. Tables that it lacks are created."""
    path = os.path.realpath(path)
    if readonly:
        reason = f"{path} cannot be written"
        return Database(path, None, readonly_reason=reason, busy_ms=busy_ms, mode=resting_mode(path))
    create_file(path)
    with translating(path, busy_ms):
        writer = connect(path, mode="rw", busy_ms=busy_ms)
        try:
            enter_wal(writer, busy_ms=busy_ms)
            schema.create(writer, tables, path=path)
        except BaseException:
            writer.close()
            raise
    return Database(path, writer, busy_ms=busy_ms)


def resting_mode(path: str) -> str:
    """How to connect to a file that nobody writes and next to which nothing can be created.

    If it has no write-ahead log, the file itself is complete and can be read without locks.
    """
    wal = f"{path}-wal"
    return "ro" if os.path.exists(wal) and os.path.getsize(wal) else "ro&immutable=1"


def damage_in(path: str, tables: tuple[str, ...]) -> str:
    """What is wrong with the structure of a side database. Pages are not inspected in a file that is too large.

    Only SQLite opens the file. If anything else in the process closed it, every lock on it would be gone, and another
    process could delete the write-ahead log that this one writes to.
    """
    try:
        with closing(connect(os.path.realpath(path), mode="rw")) as connection:
            found = "ok"
            if os.path.getsize(path) <= CHECKED_BYTES_MAX:
                found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok" or (found := schema.damage_in(connection, tables, path=path)):
                return found
            if os.access(path, os.W_OK):  # a version in the header that SQLite does not know makes the file read-only
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("PRAGMA user_version = 0")
                connection.execute("ROLLBACK")
            return ""
    except sqlite3.Error as problem:
        codes = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY)  # no statement here is wrong by itself
        return str(problem) if translate.code_of(problem) in codes or translate.is_damage(problem) else ""
    except UnicodeDecodeError as problem:  # in a message that quotes the damaged text
        return str(problem)


@contextmanager
def translating(path: str, busy_ms: int) -> Iterator[None]:
    """Raise the errors of opening a file as errors of this library."""
    try:
        yield
    except sqlite3.Error as problem:
        raise translate.of_read(problem, path=path, waited_ms=busy_ms) from problem
