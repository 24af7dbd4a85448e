"""SQL tables that projections own, in the schema `tally_views`. Their places stand in `tally.views` with all others.

Invariants: one session changes tables at a time, so a table that it found live stays so; a table is dropped when no
session reads any, and none begins to before that is committed. What a session reads of the log, it reads over its own
connection: a handle needs no second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import Reading
from tallystick.engines.postgres.keeping import Pooled, Within
from tallystick.engines.postgres.views import PostgresViews, not_whole
from tallystick.store.tables import Session, Values, table_name
from tallystick.store.views import Place


class PostgresTables:
    """The tables of one database. `refusal` says why this handle may not change them."""

    def __init__(self, connections: Reading, *, refusal: str | None) -> None:
        self._connections = connections
        self._not_whole = not_whole(connections.org)
        self._pooled = Pooled(connections, refusal=refusal)

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""
        return self._session("begin_reading_tables")

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable when the block is left."""
        self._pooled.require_writing()
        return self._session("begin_changing_tables")

    @contextmanager
    def _session(self, beginning: str) -> Iterator[Session]:
        with self._connections.using() as connection, connection.transaction():
            connection.execute(statements.named(beginning))
            with self._connections.reading_over(connection):
                yield _session_on(connection, PostgresViews(Within(connection), refusal=self._not_whole))


def _session_on(connection: psycopg.Connection[Any], views: PostgresViews) -> Session:
    def execute(statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        done = connection.execute(statement.encode(), values or None)
        return done.fetchall() if done.description is not None else []

    def discard(place: Place) -> None:
        connection.execute(statements.named("lock_tables_in_use"))
        prefix = table_name(place.projection, place.epoch)
        for (statement,) in connection.execute(statements.named("say_how_to_drop"), {"prefix": prefix}).fetchall():
            connection.execute(statement)
        views.discard(place.projection, place.epoch, limit=1, live=True)

    return Session(execute, views, discard)
