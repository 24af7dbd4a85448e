"""The small database beside a file log: checkpoints, view rows, dead letters. Made when it is first written to.

It is derived or replaceable and never part of the log. A read-only log may save checkpoints too: a consumer in another
process has its own place, and SQLite lets several processes write.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from tallystick import errors
from tallystick.engines.tables import deadletters, views
from tallystick.engines.tables.checkpoints import SCHEMA, SqliteCheckpoints
from tallystick.engines.tables.database import Database, open_beside
from tallystick.engines.tables.lazily import LazyDatabase
from tallystick.engines.tables.owned import OwnedTables
from tallystick.event.model import Row
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.views import Inline


class BesideCheckpoints:
    """Checkpoints of a file log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: Database | None = None

    def load(self, name: str) -> Checkpoint | None:
        return self._table().load(name) if self._exists() else None

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        self._table().save(checkpoint, previous=previous)

    def names(self) -> list[str]:
        return self._table().names() if self._exists() else []

    def delete(self, name: str) -> None:
        if self._exists():
            self._table().delete(name)

    def close(self) -> None:
        """Give the database back."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _exists(self) -> bool:
        return self._database is not None or os.path.exists(self._path)

    def _table(self) -> SqliteCheckpoints:
        with self._lock:
            if self._database is None:
                self._database = open_beside(self._path, SCHEMA)
            return SqliteCheckpoints(self._database)


class BesideViews:
    """View rows and dead letters of a file log."""

    def __init__(self, path: str) -> None:
        self._database = LazyDatabase(path, views.SCHEMA + deadletters.SCHEMA)
        self.views = views.SqliteViews(self._database)
        self.view_tables = OwnedTables(self._database)
        self.dead_letters = deadletters.SqliteDeadLetters(self._database)

    def prepare(self, inline: Inline | None, rows: Sequence[Row]) -> Callable[[], None]:
        """Let inline projections fold what is about to be written; what is returned stores their rows."""
        if inline is None or not rows:
            return _nothing
        store_rows = inline.prepare(rows, self.views)

        def store() -> None:
            try:
                store_rows(self.views)
            except errors.TallyError as problem:  # the events are durable all the same: a retry needs their ids
                raise errors.StoreFailed(operation="storing inline rows", reason=problem.message) from problem

        return store

    def close(self) -> None:
        """Give the database back."""
        self._database.close()


def _nothing() -> None:
    """What there is to store if nothing runs inline."""
