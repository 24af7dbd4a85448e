"""The small database beside the runs: checkpoints. Made when it is first written to; never part of a log."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import AbstractContextManager

from tallystick.engines.tables.checkpoints import SCHEMA, SqliteCheckpoints
from tallystick.engines.tables.database import Database, open_beside
from tallystick.store.checkpoints import Checkpoint

NAME = "beside.db"


class _Lazy:
    """A database that is opened when a connection is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._database: Database | None = None

    @property
    def exists(self) -> bool:
        return self._database is not None or os.path.exists(self.path)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._opened().reading()

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._opened().writing()

    def _opened(self) -> Database:
        with self._lock:
            if self._database is None:
                self._database = open_beside(self.path, SCHEMA)
            return self._database

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


class NdjsonCheckpoints(SqliteCheckpoints):
    """Checkpoints of the consumers of an ndjson store. Asking for one creates nothing."""

    def __init__(self, directory: str) -> None:
        self._lazy = _Lazy(f"{directory}/{NAME}")
        super().__init__(self._lazy)

    def load(self, name: str) -> Checkpoint | None:
        return super().load(name) if self._lazy.exists else None

    def names(self) -> list[str]:
        return super().names() if self._lazy.exists else []

    def delete(self, name: str) -> None:
        if self._lazy.exists:
            super().delete(name)

    def close(self) -> None:
        """Give the database back."""
        self._lazy.close()
