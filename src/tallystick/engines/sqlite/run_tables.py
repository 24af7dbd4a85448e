"""The tables `runs`, `sessions`, `nodes`, `jobs` and `job_attempts`, filled from the events of runs."""

from __future__ import annotations

from tallystick.engines.sqlite import statements
from tallystick.engines.tables.database import Database
from tallystick.store.run_tables import RunRow, RunRows

_STATEMENTS = {
    "runs": "put_run",
    "sessions": "put_session",
    "nodes": "put_node",
    "jobs": "put_job",
    "job_attempts": "put_job_attempt",
}


class SqliteRunTables:
    """Stores rows in the log's own database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, rows: RunRows) -> None:
        """Put all rows in place in one transaction."""
        with self._database.writing() as connection:
            for table, statement in _STATEMENTS.items():
                connection.executemany(statements.named(statement), list(getattr(rows, table)))

    def read(self, table: str) -> list[RunRow]:
        """Every row of one of the tables, in order of key."""
        with self._database.reading() as connection:
            cursor = connection.execute(statements.named(f"list_{table}"))
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
