"""What tables that an earlier version made lack: a check for each row, and counts. They have no format number."""

from __future__ import annotations

import sqlite3

from tallystick.engines.tables import statements
from tallystick.store import row_checks

_CHECK = "ALTER TABLE {} ADD COLUMN checksum BLOB"
_COUNT = "ALTER TABLE views ADD COLUMN row_count INTEGER NOT NULL DEFAULT 0"
_ADD = (  # the table that it is about, the table and column that may be lacking, what adds it, and what fills it in
    ("views", "views", "checksum", _CHECK.format("views"), "check_views"),
    ("view_rows", "view_rows", "checksum", _CHECK.format("view_rows"), "check_view_rows"),
    ("checkpoints", "checkpoints", "checksum", _CHECK.format("checkpoints"), "check_checkpoints"),
    ("view_rows", "views", "row_count", _COUNT, "begin_counting_rows"),
    ("dead_letters", "kept_counts", "number", statements.named("create_kept_counts"), "begin_counting_letters"),
)


def add(connection: sqlite3.Connection) -> None:
    """Add what is lacking, filled in from what is there, in one transaction."""
    if not _lacking(connection):
        return
    connection.create_function("row_check", -1, row_checks.check_of, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for change, filling in _lacking(connection):  # another process may have been here meanwhile
            connection.execute(change)
            connection.execute(statements.named(filling))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.create_function("row_check", -1, None)


def _lacking(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """What adds each column that is not there, and what fills it in, where there is what it is about."""
    tables = {table for about, changed, *_ in _ADD for table in (about, changed)}
    found = {table: connection.execute(statements.named("list_columns"), (table,)).fetchall() for table in tables}
    return [
        (change, filling)
        for about, table, column, change, filling in _ADD
        if found[about] and (column,) not in found[table]
    ]
