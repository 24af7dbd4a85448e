"""Inline projections within a commit: folded before anything is written, stored in the commit's own transaction.

A place is one number, so whoever moves it must know that nothing below can still come: such a commit holds the log
alone, and nobody else appends until it has ended. Then the last event is final, and the next position is known.
What the projections read of the log, they read over the connection of the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import Connections
from tallystick.engines.postgres.safe_head import SafeHead
from tallystick.engines.postgres.transactions import JoinedTransaction
from tallystick.engines.postgres.views import PostgresViews
from tallystick.event.model import Row
from tallystick.store.views import Inline, Seen


class InlineCommit:
    """What a writer does for inline projections."""

    def __init__(self, projections: Inline, connections: Connections, safe_head: SafeHead) -> None:
        self.projections = projections
        self._connections = connections
        self._safe_head = safe_head
        self._seen: Seen = set()

    def store(self, connection: psycopg.Connection[Any], rows: Sequence[Row], *, below: int) -> int:
        """Store what the rows of a commit add up to, which count from `below`; says where the first one will stand."""
        found = connection.execute(statements.named("where_log_ends"), binary=True).fetchone()
        assert found is not None
        last, first = found
        self._safe_head.reach(last)
        placed = [(row[0] - below + first, *row[1:]) for row in rows]
        views = PostgresViews(JoinedTransaction(connection), locks=True, seen=self._seen)
        with self._connections.reading_over(connection):
            self.projections.prepare(placed, views)(views)
        return int(first)


def require_drawn(drawn: int, told: int) -> None:
    """Assert that the events stand where the projections were told."""
    if drawn != told:
        reason = f"position {drawn} was drawn instead of {told}: somebody draws without the lock of the log"
        raise errors.StoreFailed(operation="a commit with inline projections", reason=reason)
