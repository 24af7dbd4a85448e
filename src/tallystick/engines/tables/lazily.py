"""A database beside a log that is made when it is first written to. Until then, reading it finds empty tables."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tallystick import errors
from tallystick.engines.tables.database import Database, open_beside


class LazyDatabase:
    """The database at a path, with tables as `schema` creates them."""

    def __init__(self, path: str, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
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
        with self._opened().writing() as connection:
            yield connection

    def close(self) -> None:
        """Give the database back. Safe to call twice."""
        with self._lock:
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    def _opened(self) -> Database:
        with self._lock:
            if self._closed:
                raise errors.StoreClosed()
            if self._database is None:
                self._database = open_beside(self._path, self._schema)
            return self._database
