"""Room given back: the tables that maintenance touches are vacuumed, beside readers and writers.

What was pruned or erased stays in dead rows until then. A vacuum frees their room for new rows; it overwrites nothing,
and gives pages back to the disk only from the end of a table.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import MAINTENANCE, SERVICE, Connections
from tallystick.store.maintenance import Reclaimed

TABLES = ("tally.events", "tally.snapshots", "tally.commands", "tally.command_ranges")
_NOT_ALLOWED = f"nothing: the role that logs in is not a member of {MAINTENANCE}; autovacuum does it in its own time"
_POOLED = "nothing: a pooler stands before the server, and a vacuum needs a connection of its own; connect directly"


def reclaim(connections: Connections, progress: Callable[[int], None], *, allowed: bool) -> Reclaimed:
    """Vacuum what maintenance touches, and say so, or why not. The server warns of a table that it leaves out."""
    before = _size(connections)
    done = [_NOT_ALLOWED] if not allowed else [_POOLED] if connections.pooled else _vacuum(connections)
    progress(1)
    return Reclaimed(tuple(done), before, _size(connections))


def _vacuum(connections: Connections) -> list[str]:
    warnings: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.message_primary or "")

    with connections.using() as connection:
        connection.add_notice_handler(note)
        connection.execute(statements.named("set_setting"), ("role", MAINTENANCE))
        try:
            connection.execute(statements.named("vacuum"))
        finally:
            connection.execute(statements.named("set_setting"), ("role", SERVICE))
            connection.remove_notice_handler(note)
    return warnings or [f"vacuumed {', '.join(TABLES)}"]


def _size(connections: Connections) -> int:
    return int(connections.rows("table_sizes", (list(TABLES),))[0][0])
