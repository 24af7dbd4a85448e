"""The small database next to a log of files: checkpoints, view rows, dead letters. Created by the first write.

It is derived or replaceable and never part of the log. A read-only log may write to it too: a consumer or a projection
in another process has its own checkpoint, and SQLite lets several processes write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from tallystick import errors
from tallystick.engines.tables import consumers, schema, statements, views
from tallystick.engines.tables.connection import connect
from tallystick.engines.tables.database import resting_mode
from tallystick.engines.tables.lazy_database import LazyDatabase
from tallystick.engines.tables.view_tables import SqliteTables
from tallystick.event.model import Row
from tallystick.store.commit import Transaction
from tallystick.store.page import Page
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.tables import drop_tables_of
from tallystick.store.views import Inline

_TABLES = ("checkpoints", *schema.VIEWS, *schema.DEAD_LETTERS, "pending_drops")
_NOTHING = nullcontext()


class SideTables:
    """The tables next to a log, and the projections that run within its commits. A base of the log."""

    run_documents: RunDocuments | None = None
    run_tables: RunTables | None = None

    def __init__(self, path: str, *, is_moved: Callable[[], bool] = lambda: False, has_mark: bool = False) -> None:
        self._side = LazyDatabase(path, _TABLES, is_moved=is_moved, has_mark=has_mark)
        self.checkpoints = consumers.SqliteCheckpoints(self._side)
        self.views = views.SqliteViews(self._side)
        self.view_tables = SqliteTables(self._side)
        self.dead_letters = consumers.SqliteDeadLetters(self._side)
        self.inline: Inline | None = None

    def projecting(self, rows: Sequence[Row]) -> AbstractContextManager[None]:
        """Let inline projections fold the rows that the block writes, and store their own rows after the block."""
        return _NOTHING if self.inline is None or not rows else self._projecting(self.inline, rows)

    @contextmanager
    def _projecting(self, inline: Inline, rows: Sequence[Row]) -> Iterator[None]:
        store_rows = inline.prepare(rows, self.views)
        yield
        try:
            store_rows(self.views)
        except errors.TallyError as problem:  # the events are durable: a retry needs their ids
            raise errors.StoreFailed(operation="storing inline rows", reason=problem.message) from problem

    def note_drops(self, transactions: Iterable[Transaction]) -> None:
        """Note what the erasures of a commit must drop again after it: until then a runner may fold it."""
        if not self._side.exists:
            return
        noted = []
        for each in [item.maintenance for item in transactions if item.maintenance is not None]:
            positions = [erasure.position for erasure in each.erasures]
            noted += [(position, "", "") for position in positions]
            noted += [(positions[0], *row) for row in each.dropped_rows if positions]  # one commit erases all of them
        with self._side.writing() as connection:
            connection.executemany(statements.named("note_pending_drop"), noted)

    def apply_noted_drops(self, read: Callable[..., Page], transactions: Iterable[Transaction] | None = None) -> None:
        """Drop what was noted for these transactions (None: for any, after a crash), if its event is erased now."""
        if not self._side.exists:
            return
        with self._side.writing() as connection:
            pending = connection.execute(statements.named("list_pending_drops")).fetchall()
        if transactions is not None:  # others may be about to commit
            own = {item.position for each in transactions if each.maintenance for item in each.maintenance.erasures}
            pending = [(position, *row) for position, *row in pending if position in own]
        for position, projection, key in pending:
            page = read(after=position - 1, until=position, limit=1, over_pruned=True, over_holes=True)
            event = page.events[0] if page.events else None
            if event is not None and event.payload is not None:  # the commit was refused, or never happened
                continue
            if projection:
                self.views.drop(projection, [key])
                continue
            self.dead_letters.redact(position, "the event was erased")
            if event is not None:
                drop_tables_of(self.view_tables, event)
        if pending:
            with self._side.writing() as connection:
                connection.executemany(
                    statements.named("delete_pending_drops"), [(position,) for position, *_ in pending]
                )

    def quarantine_side_tables(self, folder: str, *, time_ns: int) -> list[str]:
        """Move a damaged database into a folder and start again, and report it: it is not part of the log."""
        return self._side.quarantine(folder, time_ns=time_ns)

    def lost_side_writes(self) -> list[str]:
        """Reports on writes to the database that were lost."""
        return self._side.losses()

    def close_side_tables(self) -> None:
        """Close the database."""
        self._side.close()


def recorded_checkpoints(path: str) -> list[tuple[str, bytes, int]]:
    """The consumers that have a checkpoint in the database at a path, each with its store and position.

    Empty if it cannot be read. Nothing is created, and no write-ahead log is checkpointed.
    """
    path = os.path.realpath(path)
    try:
        with closing(connect(path, mode=resting_mode(path), settings=())) as connection:
            return list(connection.execute(statements.named("list_consumer_places")))
    except (sqlite3.Error, OSError, UnicodeDecodeError):
        return []
