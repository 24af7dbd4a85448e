"""The tables that runs fill: `runs`, `sessions`, `nodes`, `jobs`, `job_attempts`. Rows come from the runs' events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tallystick.engines.sqlite import statements
from tallystick.engines.tables.database import Database

_STATEMENTS = {
    "runs": "put_run",
    "sessions": "put_session",
    "nodes": "put_node",
    "jobs": "put_job",
    "job_attempts": "put_job_attempt",
}


class Rows(Protocol):
    """Rows by table, each a mapping from column to value."""

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def sessions(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def job_attempts(self) -> Sequence[Mapping[str, Any]]: ...


class SqliteRunTables:
    """Puts rows in place: a row of the same key is replaced, the fingerprint of a run stays."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, rows: Rows) -> None:
        """Put all rows in place in one transaction."""
        with self._database.writing() as connection:
            for table, statement in _STATEMENTS.items():
                connection.executemany(statements.named(statement), list(getattr(rows, table)))

    def read(self, table: str) -> list[dict[str, Any]]:
        """Every row of one of the tables, in order of key."""
        with self._database.reading() as connection:
            cursor = connection.execute(statements.named(f"list_{table}"))
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
