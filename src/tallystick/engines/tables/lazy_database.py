"""A database next to a log that is created by the first write. Until then, a reader finds empty tables."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from tallystick import errors
from tallystick.engines.tables import schema, statements
from tallystick.engines.tables.database import Database, damage_in, open_side

MARK = ".mark"  # how many writes there were, in digits; written after each, and not synced
_MARK_BYTES = 21


class LazyDatabase:
    """The database at a path, with some of the tables in `sql/schema/`.

    SQLite finds it by its path: while `is_moved` says that the path leads to another place, it is refused. With
    `has_mark`, writes that are lost with a write-ahead log are noticed, and damage is reported as that of this file.
    """

    def __init__(
        self,
        path: str,
        tables: tuple[str, ...],
        *,
        is_moved: Callable[[], bool] = lambda: False,
        has_mark: bool = False,
    ) -> None:
        self._has_mark = has_mark
        self._path = path
        self._is_moved = is_moved
        self._tables = (*tables, "commits") if has_mark else tables
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._closed = False
        self._lost = ""

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        self._require_unmoved()
        if self._database is not None or os.path.exists(self._path):
            return True
        self._compare_with_mark(0)
        return False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection for several statements that must agree."""
        if not self.exists:
            with closing(sqlite3.connect(":memory:")) as nothing:
                nothing.executescript(schema.script(*self._tables))
                yield nothing
            return
        with self._reported(), self._opened().snapshot() as connection:
            yield connection

    reading = snapshot

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk when the block ends."""
        self._require_unmoved()
        with self._reported():
            with self._opened().writing() as connection:
                yield connection
                count = self._count_write(connection)
            self._put_mark(count)

    def close(self) -> None:
        """Close the database. Safe to call twice."""
        with self._lock:
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report damage as that of this file: no position of the log is damaged."""
        try:
            yield
        except (errors.Damaged, UnicodeDecodeError) as problem:
            if not self._has_mark:
                raise
            reason = problem.values["reason"] if isinstance(problem, errors.Damaged) else str(problem)
            what = f"it is damaged, and not part of the log: the next opening for writing sets it aside ({reason})"
            raise errors.ReadFailed(path=self._path, reason=what) from problem

    def quarantine(self, folder: str, *, time_ns: int) -> list[str]:
        """Move a damaged database into a folder, and report it. For the one writer of the log, before it uses it."""
        name, damage = os.path.basename(self._path), damage_in(self._path, self._tables) if self.exists else ""
        if not damage:
            return []
        for suffix in ("", "-wal", "-shm", MARK):
            with suppress(FileNotFoundError):
                os.rename(f"{self._path}{suffix}", f"{folder}/{name}.{time_ns}{suffix}")
        kept = f"{os.path.basename(folder)}/{name}.{time_ns}"
        return [f"{name} was damaged ({damage}): set aside as {kept}; checkpoints, rows and dead letters start again"]

    def losses(self) -> list[str]:
        """Reports on writes that were lost, as far as this handle knows."""
        return [self._lost] if self._lost else []

    def _count_write(self, connection: sqlite3.Connection) -> int:
        """The number of writes, this one included."""
        if not self._has_mark:
            return 0
        (count,) = connection.execute(statements.named("count_commit")).fetchone()
        return int(count)

    def _put_mark(self, count: int) -> None:
        if not self._has_mark:
            return
        with suppress(OSError):  # it may lag: it only has to show that a write-ahead log is gone
            descriptor = os.open(f"{self._path}{MARK}", os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, b"%0*d\n" % (_MARK_BYTES - 1, count))
            finally:
                os.close(descriptor)

    def _compare_with_mark(self, count: int) -> None:
        """Notice if the database, which has `count` writes, had more, or if the mark cannot tell."""
        if not self._has_mark:
            return
        name, marked = os.path.basename(self._path), self._read_mark()
        if marked is None:
            lost = f"{name}{MARK} is not what was written, so that {name} may have lost its newest writes"
        elif marked < 0 < count:
            lost = f"{name}{MARK} is missing, so that {name} may have lost its newest writes"
        elif count < marked:
            lost = f"{name} lost the newest {marked - count} of its {marked} writes"
        else:
            return
        self._lost = (
            f"{lost}: checkpoints and rows may be older than they were, and consumers may see some events again"
        )

    def _read_mark(self) -> int | None:
        """The number in the mark; -1 if there is no mark, None if it is not what was written."""
        try:
            with open(f"{self._path}{MARK}", "rb") as file:
                data = file.read(_MARK_BYTES + 1)
        except FileNotFoundError:
            return -1
        except OSError:
            return None
        return int(data) if len(data) == _MARK_BYTES and data[:-1].isdigit() and data.endswith(b"\n") else None

    def _inspected(self, database: Database) -> Database:
        """A database that was just opened, inspected for damage and lost writes."""
        if self._has_mark:
            if damage := damage_in(self._path, self._tables):
                database.close()
                raise errors.Damaged(first=0, last=0, reason=damage)
            with database.reading() as connection:
                (count,) = connection.execute("SELECT max(number) FROM commits").fetchone()
            self._compare_with_mark(count)
        return database

    def _require_unmoved(self) -> None:
        if self._is_moved():
            reason = "its directory was moved or replaced while it was open; open the log where it is now"
            raise errors.ReadFailed(path=self._path, reason=reason)

    def _opened(self) -> Database:
        with self._lock:
            if self._closed:
                raise errors.StoreClosed()
            if self._database is None:
                here = os.path.dirname(self._path) or "."
                readonly = os.path.exists(self._path) and not os.access(here, os.W_OK)
                self._database = self._inspected(open_side(self._path, self._tables, readonly=readonly))
            return self._database
