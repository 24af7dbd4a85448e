"""A database beside a log that is made when it is first written to. Until then, reading it finds empty tables."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tallystick import errors
from tallystick.engines.tables.database import Database, open_beside


class LazyDatabase:
    """The database at a path, with tables as `schema` creates them.

    SQLite finds it by its path: `is_moved` says whether that leads elsewhere by now, and then it is refused.
    """

    def __init__(self, path: str, schema: str, *, is_moved: Callable[[], bool] = lambda: False) -> None:
        self._path = path
        self._is_moved = is_moved
        self._schema = schema
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        self._require_place()
        return self._database is not None or os.path.exists(self._path)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection for several statements that must agree."""
        if not self.exists:
            with closing(sqlite3.connect(":memory:")) as nothing:
                nothing.executescript(self._schema)
                yield nothing
            return
        with self._opened().snapshot() as connection:
            yield connection

    reading = snapshot

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk when the block is left."""
        self._require_place()
        with self._opened().writing() as connection:
            yield connection

    def close(self) -> None:
        """Give the database back. Safe to call twice."""
        with self._lock:
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    def _require_place(self) -> None:
        if self._is_moved():
            where, name = os.path.split(self._path)
            reason = f"the directory {where} was moved or replaced while it was open; open it where it is now"
            raise errors.StoreFailed(operation=name, reason=reason)

    def _opened(self) -> Database:
        with self._lock:
            if self._closed:
                raise errors.StoreClosed()
            if self._database is None:
                self._database = open_beside(self._path, self._schema)
            return self._database
