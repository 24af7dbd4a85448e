"""The column `checksum`, which tables made by an earlier version lack. A file beside a log has no format number."""

from __future__ import annotations

import sqlite3

from tallystick.engines.tables import statements
from tallystick.store import row_checks

_ADD = {
    "views": "ALTER TABLE views ADD COLUMN checksum BLOB",
    "view_rows": "ALTER TABLE view_rows ADD COLUMN checksum BLOB",
    "checkpoints": "ALTER TABLE checkpoints ADD COLUMN checksum BLOB",
}


def add(connection: sqlite3.Connection) -> None:
    """Add the column where it is lacking, with the check of what is there, in one transaction."""
    if not _lacking(connection):
        return
    connection.create_function("row_check", -1, row_checks.check_of, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table in _lacking(connection):  # another process may have been here meanwhile
            connection.execute(_ADD[table])
            connection.execute(statements.named(f"check_{table}"))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.create_function("row_check", -1, None)


def _lacking(connection: sqlite3.Connection) -> list[str]:
    """The tables that are there, and have no such column."""
    found = {table: connection.execute(statements.named("list_columns"), (table,)).fetchall() for table in _ADD}
    return [table for table, columns in found.items() if columns and ("checksum",) not in columns]
