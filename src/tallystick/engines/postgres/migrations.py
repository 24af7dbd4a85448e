"""The schema as numbered, forward-only steps: `sql/migrations/NNN_name.sql`.

Invariant: a step and its row in `tally.migrations` are one transaction, and steps are taken under the lock of that
table. A database is therefore always exactly at some step, whoever was interrupted. The first step needs no lock: it
makes a schema, which can be made once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources

import msgspec
import psycopg

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import SEARCH_PATH

_ROLES = 1  # taken as the role that logs in; all later steps as the owner
_FIRST_TABLES = 2


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str


@cache
def known() -> tuple[Migration, ...]:
    """Every step, in order."""
    folder = resources.files(__package__).joinpath("sql", "migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    steps = tuple(Migration(int(file.name[:3]), file.name[4:-4], file.read_text()) for file in files)
    numbers = [step.number for step in steps]
    assert numbers == sorted(set(numbers))
    return steps


def latest() -> int:
    """The number of the format that this version writes."""
    return known()[-1].number


def version_of(connection: psycopg.Connection) -> int:
    """The number of the last step taken; 0 in a database that has no log."""
    found = connection.execute(statements.named("has_log")).fetchone()
    if found is None or not found[0]:
        return 0
    row = connection.execute(statements.named("find_format")).fetchone()
    return int(row[0]) if row else 0


def migrate(
    connection: psycopg.Connection, *, profile: str, clock: Callable[[], int], upto: int | None = None
) -> list[Migration]:
    """Take the steps that are missing, in one transaction; returns those taken here."""
    last = latest() if upto is None else upto
    with protected(connection):
        if version_of(connection):
            connection.execute("SET LOCAL ROLE tally_owner")
            connection.execute(statements.named("lock_schema"))
            connection.execute("RESET ROLE")
        before = version_of(connection)  # another process may have been here while this one waited
        missing = [step for step in known() if before < step.number <= last]
        for step in missing:
            _take(connection, step)
        if _FIRST_TABLES in [step.number for step in missing]:
            values = (secrets.token_hex(16), profile, clock())
            connection.execute(statements.named("insert_store"), values)
    return missing


@contextmanager
def protected(connection: psycopg.Connection) -> Iterator[None]:
    """A transaction in which no function of others takes the place of one that is called: this login may do much."""
    with connection.transaction():
        connection.execute(statements.named("set_local_setting"), ("search_path", SEARCH_PATH))
        yield


def _take(connection: psycopg.Connection, step: Migration) -> None:
    if step.number > _ROLES:
        connection.execute("SET LOCAL ROLE tally_owner")
    connection.execute(step.sql)
    if step.number >= _FIRST_TABLES:
        if step.number == _FIRST_TABLES:
            connection.execute(statements.named("insert_migration"), (_ROLES, known()[0].name))
        connection.execute(statements.named("insert_migration"), (step.number, step.name))
