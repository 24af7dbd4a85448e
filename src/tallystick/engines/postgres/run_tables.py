"""The tables that runs fill, in the schema `tally_views`: the steps in `sql/runs/` create them with the first run.

They belong to `tally_projector`, as tables of projections do, and are reached in the same way: a login that may not
run projections has no tables of runs.
"""

from __future__ import annotations

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.view_tables import PostgresTables
from tallystick.engines.tables.migrations import Migration, numbered
from tallystick.store.run_tables import RunRow, RunRows
from tallystick.store.tables import Session

_PUT = {
    "runs": "runs/put_run",
    "sessions": "runs/put_session",
    "nodes": "runs/put_node",
    "jobs": "runs/put_job",
    "job_attempts": "runs/put_job_attempt",
}


def steps() -> tuple[Migration, ...]:
    """The steps of these tables."""
    return numbered(__package__, "sql/runs")


class PostgresRunTables:
    """Stores rows in the log's own database."""

    def __init__(self, tables: PostgresTables) -> None:
        self._tables = tables

    def put(self, rows: RunRows) -> None:
        """Put all rows in place in one transaction, which first creates the tables if they do not exist."""
        if not rows.runs:
            return
        with self._tables.writing() as session:
            _migrate(session)
            for table, statement in _PUT.items():
                for row in getattr(rows, table):
                    session.execute(statements.named(statement), row)

    def read(self, table: str) -> list[RunRow]:
        """Every row of one of the tables, in order of key; no rows if no run was recorded yet."""
        assert table in _PUT, table
        with self._tables.reading() as session:
            if not _taken(session):
                return []
            names = [name for (name,) in session.execute(statements.named("runs/list_columns"), (table,))]
            rows = session.execute(statements.named(f"runs/list_{table}"))
            return [dict(zip(names, row, strict=True)) for row in rows]


def _migrate(session: Session) -> None:
    """Take the steps that are missing. Only one session changes tables at a time."""
    taken = _taken(session)
    for step in steps():
        if step.number > taken:
            session.execute(step.sql)
            session.execute(statements.named("runs/insert_step"), (step.number, f"{step.number:03d}_{step.name}"))


def _taken(session: Session) -> int:
    """The number of the last step that was taken; 0 if there are no tables yet."""
    ((there,),) = session.execute(statements.named("runs/has_steps"))
    if not there:
        return 0
    ((number,),) = session.execute(statements.named("runs/find_step"))
    return int(number)
