"""SQL tables that projections own, in the schema `tally_views`. Their places are in `tally.views`, with all others.

The tables belong to `tally_projector`. A login with that role can attach code to them, which runs with the rights of
the login that touches them. So no statement reaches them from a login that can do more than that role.

Invariants: one session at a time changes tables, so a table that it found live stays live. A table is dropped when no
session reads any, and none begins to read before that is committed. A session reads the log over its own connection, so
that a handle needs no second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import PROJECTOR, ReadConnections
from tallystick.engines.postgres.opener import Login
from tallystick.engines.postgres.transactions import JoinedTransaction, OwnTransactions
from tallystick.engines.postgres.views import PostgresViews, not_whole
from tallystick.store.tables import Execute, Session, Values, table_name
from tallystick.store.views import Place


class PostgresTables:
    """The tables of one database. `refusal` says why this handle may not change them; `login` is who logged in."""

    def __init__(self, connections: ReadConnections, *, refusal: str | None, login: Login) -> None:
        self._connections = connections
        self._not_whole = not_whole(connections.org)
        self._transactions = OwnTransactions(connections, refusal=refusal)
        self._login = login

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""
        return self._session("begin_reading_tables", "read_tables")

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable at the end of the block."""
        self._transactions.require_writing()
        return self._session("begin_changing_tables", "change_tables")

    @contextmanager
    def _session(self, beginning: str, becoming: str) -> Iterator[Session]:
        with self._connections.transaction() as connection:
            connection.execute(statements.named(beginning))
            views = PostgresViews(JoinedTransaction(connection), refusal=self._not_whole)
            with self._connections.reading_over(connection):
                yield Session(self._executing(connection, becoming), views, _discarding(connection, views))

    def _executing(self, connection: psycopg.Connection[Any], becoming: str) -> Execute:
        """Run the statements of a projection. Before the first one, the transaction becomes the owner of the tables."""
        became = False

        def execute(statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
            nonlocal became
            if not became:
                self._require_bounded(becoming)
                connection.execute(statements.named(becoming))
                became = True
            done = connection.execute(statement.encode(), values or None)
            return done.fetchall() if done.description is not None else []

        return execute

    def _require_bounded(self, becoming: str) -> None:
        reason = None
        if self._login.more_rights is not None:
            reason = (
                f"the login {self._login.more_rights}, and tables of projections may run the code of others: "
                f"use a login that was granted {PROJECTOR} and nothing else"
            )
        elif becoming == "change_tables" and PROJECTOR not in self._login.roles:
            reason = f"the role that logs in is not a member of {PROJECTOR}, which owns the tables of projections"
        if reason is not None:
            raise errors.NotPermitted(url=self._connections.url, reason=reason)


def _discarding(connection: psycopg.Connection[Any], views: PostgresViews) -> Callable[[Place], None]:
    def discard(place: Place) -> None:
        connection.execute(statements.named("lock_tables_in_use"))
        connection.execute(statements.named("drop_view_tables"), (table_name(place.projection, place.epoch),))
        views.discard(place.projection, place.epoch, limit=1, live=True)

    return discard
