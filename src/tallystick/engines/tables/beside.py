"""The small database beside a log of files: checkpoints, view rows, dead letters. Made when it is first written to.

It is derived or replaceable and never part of the log. A read-only log may write to it too: a consumer or a projection
in another process has its own place, and SQLite lets several processes write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from tallystick import errors
from tallystick.engines.tables import checkpoints, deadletters, schema, statements, views
from tallystick.engines.tables.connection import connect
from tallystick.engines.tables.database import resting_mode
from tallystick.engines.tables.lazily import LazyDatabase
from tallystick.engines.tables.owned import OwnedTables
from tallystick.event.model import Row
from tallystick.store.commit import Transaction
from tallystick.store.page import Page
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.tables import drop_tables_of
from tallystick.store.views import Inline

_TABLES = ("checkpoints", *schema.VIEWS, *schema.DEAD_LETTERS, "pending_drops")
_NOTHING = nullcontext()


class Beside:
    """The part of a log that stands beside it, and the projections that run within its commits."""

    run_documents: RunDocuments | None = None
    run_tables: RunTables | None = None

    def __init__(self, path: str, *, is_moved: Callable[[], bool] = lambda: False, has_mark: bool = False) -> None:
        self._beside = LazyDatabase(path, _TABLES, is_moved=is_moved, has_mark=has_mark)
        self.checkpoints = checkpoints.SqliteCheckpoints(self._beside)
        self.views = views.SqliteViews(self._beside)
        self.view_tables = OwnedTables(self._beside)
        self.dead_letters = deadletters.SqliteDeadLetters(self._beside)
        self.inline: Inline | None = None

    def projecting(self, rows: Sequence[Row]) -> AbstractContextManager[None]:
        """Let inline projections fold what the block is about to write, and store their rows after it."""
        return _NOTHING if self.inline is None or not rows else self._projecting(self.inline, rows)

    @contextmanager
    def _projecting(self, inline: Inline, rows: Sequence[Row]) -> Iterator[None]:
        store_rows = inline.prepare(rows, self.views)
        yield
        try:
            store_rows(self.views)
        except errors.TallyError as problem:  # the events are durable all the same: a retry needs their ids
            raise errors.StoreFailed(operation="storing inline rows", reason=problem.message) from problem

    def note_drops(self, transactions: Iterable[Transaction]) -> None:
        """Note what erasures that are about to be committed must drop: a runner may fold it again until they are."""
        if not self._beside.exists:
            return
        noted = []
        for each in [item.maintenance for item in transactions if item.maintenance is not None]:
            places = [erasure.position for erasure in each.erasures]
            noted += [(position, "", "") for position in places]
            noted += [(places[0], *row) for row in each.dropped_rows if places]  # they are erased together, or not
        with self._beside.writing() as connection:
            connection.executemany(statements.named("note_pending_drop"), noted)

    def settle_drops(self, read: Callable[..., Page], transactions: Iterable[Transaction] | None = None) -> None:
        """Drop what was noted for these (None: for any), if its event is erased now, if need be after a crash."""
        if not self._beside.exists:
            return
        with self._beside.writing() as connection:
            pending = connection.execute(statements.named("list_pending_drops")).fetchall()
        if transactions is not None:  # others may be about to commit
            own = {item.position for each in transactions if each.maintenance for item in each.maintenance.erasures}
            pending = [row for row in pending if row[0] in own]
        for position, projection, key in pending:
            page = read(after=position - 1, until=position, limit=1, over_pruned=True, over_holes=True)
            event = page.events[0] if page.events else None
            if event is not None and event.payload is not None:  # it was refused, or never committed
                continue
            if projection:
                self.views.drop(projection, [key])
                continue
            self.dead_letters.redact(position, "the event was erased")
            if event is not None:
                drop_tables_of(self.view_tables, event)
        if pending:
            with self._beside.writing() as connection:
                connection.executemany(statements.named("delete_pending_drops"), [row[:1] for row in pending])

    def set_beside_aside(self, folder: str, *, time_ns: int) -> list[str]:
        """Put a damaged database into a folder and begin again, and say so: it is no part of the log."""
        return self._beside.set_aside(folder, time_ns=time_ns)

    def beside_losses(self) -> list[str]:
        """Writes to the database that were made and are gone."""
        return self._beside.losses()

    def close_beside(self) -> None:
        """Give the database back."""
        self._beside.close()


def places_in(path: str) -> list[tuple[str, bytes, int]]:
    """Who keeps a place in the database at a path, in which store, and how far it is. What cannot be read says nothing.

    It is looked at and not opened: nothing is created, and no write-ahead log is brought home.
    """
    path = os.path.realpath(path)
    try:
        with closing(connect(path, mode=resting_mode(path), settings=())) as connection:
            return list(connection.execute(statements.named("list_consumer_places")))
    except (sqlite3.Error, OSError, UnicodeDecodeError):
        return []
