"""Inline projections within a commit: folded before anything is written, stored in the commit's own transaction.

A place is one number, so no position below it may appear later. Such a commit therefore locks the whole log, and nobody
else appends until it has ended: the last event is final, and the next position is known. The projections read the log
over the connection of the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.batches import PROVISIONAL
from tallystick.engines.postgres.connections import ServerConnections
from tallystick.engines.postgres.safe_head import SafeHead
from tallystick.engines.postgres.transactions import JoinedTransaction
from tallystick.engines.postgres.views import PostgresViews
from tallystick.event.model import Row
from tallystick.store.views import Inline, Seen


class InlineCommit:
    """The inline projections of a writer."""

    def __init__(self, projections: Inline, connections: ServerConnections, safe_head: SafeHead) -> None:
        self.projections = projections
        self._connections = connections
        self._safe_head = safe_head
        self._seen: Seen = set()

    def store(self, connection: psycopg.Connection[Any], rows: Sequence[Row]) -> int:
        """Fold the rows of a commit, which have provisional positions. Returns the position of the first event."""
        found = connection.execute(statements.named("where_log_ends"), binary=True).fetchone()
        assert found is not None
        last, first = found
        self._safe_head.reach(last)
        placed = [(position - PROVISIONAL + first, *rest) for position, *rest in rows]
        views = PostgresViews(JoinedTransaction(connection), locks=True, seen=self._seen)
        with self._connections.reading_over(connection):
            self.projections.prepare(placed, views)(views)
        return int(first)


def require_drawn(drawn: int, promised: int) -> None:
    """Refuse the commit if its events are not at the positions that the projections have folded."""
    if drawn != promised:
        reason = f"position {drawn} was drawn instead of {promised}: another session draws without the lock of the log"
        raise errors.StoreFailed(operation="a commit with inline projections", reason=reason)
