"""The schema: `sql/schema/` creates a new store, the numbered steps in `sql/steps/` bring an older one up to date.

Functions have one file each in `sql/functions/`, and are installed again with every step.

Invariant: all of it is one transaction, together with the row in `tally.migrations`; steps are taken under the lock of
that table. A new store needs no lock, because a schema can be created only once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources

import psycopg

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import SEARCH_PATH
from tallystick.engines.tables import migrations
from tallystick.engines.tables.migrations import Migration

# In the order of creation: a table needs the functions of its triggers, and policies and views need the tables.
_BEFORE_FUNCTIONS = ("roles", "schemas")
_TABLES = (
    *("locks", "migrations", "store", "infrastructure", "events", "streams", "sources", "leases", "proven", "damage"),
    *("event_tags", "cuts", "pruned", "erasures", "snapshots", "commands", "command_ranges"),
    *("checkpoints", "views", "view_rows", "batch_rows", "dead_letters", "kept_counts"),
    *("policies", "control_plane_events", "live_rows", "vacuum"),
)


_format = migrations.Format(__package__)
steps, latest, oldest, require_known = _format.steps, _format.latest, _format.oldest, _format.require_known


@cache
def schema() -> Migration:
    """What creates a new store, at the latest format."""
    scripts = (*map(_script, _BEFORE_FUNCTIONS), functions(), *map(_script, _TABLES))
    return Migration(latest(), "schema", "\n".join(scripts))


@cache
def functions() -> str:
    """The script that installs every function, over an earlier version if there is one."""
    folder = resources.files(__package__).joinpath("sql", "functions")
    texts = [file.read_text() for file in sorted(folder.iterdir(), key=lambda file: file.name)]
    # A function may call one that is created after it, and name a table that is created later.
    return "\n".join(["SET LOCAL check_function_bodies = off;", *texts])


def _script(name: str) -> str:
    return resources.files(__package__).joinpath("sql", "schema", f"{name}.sql").read_text()


def version_of(connection: psycopg.Connection) -> int:
    """The number of the last step taken; 0 in a database that has no log."""
    found = connection.execute(statements.named("has_log")).fetchone()
    if found is None or not found[0]:
        return 0
    row = connection.execute(statements.named("find_format")).fetchone()
    return int(row[0]) if row else 0


def migrate(connection: psycopg.Connection, *, profile: str, clock: Callable[[], int]) -> list[Migration]:
    """Create the log, or take the steps that it lacks. Returns what was done by this call."""
    database = _Database(connection, profile, clock)
    return migrations.migrate(database, steps() if database.version() else [schema()])


@contextmanager
def protected(connection: psycopg.Connection) -> Iterator[None]:
    """A transaction in which a call reaches no function of others by its name: this login may have many rights."""
    with connection.transaction():
        connection.execute(statements.named("set_local_setting"), ("search_path", SEARCH_PATH))
        yield


class _Database:
    """A database as the runner of migrations sees it."""

    def __init__(self, connection: psycopg.Connection, profile: str, clock: Callable[[], int]) -> None:
        self._connection = connection
        self._profile = profile
        self._clock = clock

    def version(self) -> int:
        with protected(self._connection):
            return version_of(self._connection)

    @contextmanager
    def changing(self) -> Iterator[None]:
        with protected(self._connection):
            if self.version():
                self._connection.execute("SET LOCAL ROLE tally_owner")
                self._connection.execute(statements.named("lock_schema"))
            yield

    def take(self, step: Migration) -> None:
        is_new = not self.version()
        if not is_new:  # before the step: a trigger needs its function
            self._connection.execute(functions())
        self._connection.execute(step.sql)
        self._connection.execute(statements.named("insert_migration"), (step.number, step.name))
        if is_new:
            values = (secrets.token_hex(16), self._profile, self._clock())
            self._connection.execute(statements.named("insert_store"), values)
