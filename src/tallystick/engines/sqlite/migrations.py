"""The schema as numbered, forward-only steps: `sql/migrations/NNN_name.sql`.

Invariant: `user_version` is the number of the last step, set in the transaction of that step. A database is therefore
always exactly at some step, whenever it was interrupted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from itertools import pairwise

import msgspec

from tallystick.store import row_checks


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str


@cache
def known() -> tuple[Migration, ...]:
    """Every step, in order of its number."""
    folder = resources.files(__package__).joinpath("sql", "migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    steps = tuple(Migration(int(file.name[:3]), file.name[4:-4], file.read_text()) for file in files)
    assert all(step.number < following.number for step, following in pairwise(steps))
    return steps


def latest() -> int:
    """The number of the format that this version writes."""
    return known()[-1].number


def version_of(connection: sqlite3.Connection) -> int:
    """The number of the last step taken; 0 in a database that is still empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection, *, profile: str, clock: Callable[[], int], upto: int | None = None
) -> list[Migration]:
    """Take the steps that are missing, each in its own transaction; returns those taken here."""
    connection.create_function("opening_profile", 0, lambda: profile)
    connection.create_function("opening_time", 0, clock)
    connection.create_function("row_check", -1, row_checks.check_of, deterministic=True)
    wanted = [step for step in known() if upto is None or step.number <= upto]
    taken = [step for step in wanted if version_of(connection) < step.number and _take(connection, step)]
    connection.create_function("opening_profile", 0, None)
    connection.create_function("opening_time", 0, None)
    connection.create_function("row_check", -1, None)
    return taken


def _take(connection: sqlite3.Connection, step: Migration) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version_of(connection) >= step.number:  # another process took it while this one waited
            connection.execute("ROLLBACK")
            return False
        for statement in _statements(step.sql):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {step.number:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def _statements(sql: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would commit the transaction it is called in."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip(), pending


def schema_of(connection: sqlite3.Connection, *, kind: str = "%") -> dict[str, str]:
    """The SQL of every table, index, trigger and view, or of one of these kinds, but for what SQLite makes itself.

    What SQLite makes is known by its whole definition: a name like `sqlite_…` can be written into the schema by hand.
    """
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type LIKE ?"
    return {str(name): sql for name, sql in connection.execute(query, (kind,)) if sql not in _MADE_BY_SQLITE}


_MADE_BY_SQLITE = frozenset(
    {
        "CREATE TABLE sqlite_sequence(name,seq)",
        "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)


@cache
def expected_schema(kind: str = "%") -> dict[str, str]:
    """What `schema_of` gives for a database that took every step."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(connection, profile="plain", clock=lambda: 0)
        return schema_of(connection, kind=kind)
    finally:
        connection.close()
