"""The format of a store: `sql/schema/` creates a new one, numbered steps in `sql/steps/` bring an older one up to date.

Invariant: `user_version` is the number of the last step, set in the transaction of that step. A database is therefore
always exactly at some step, even if a migration was interrupted.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from functools import cache
from importlib import resources

import msgspec

from tallystick.engines.sqlite import statements
from tallystick.engines.tables import migrations, schema
from tallystick.engines.tables.migrations import Migration

_SHARED = ("checkpoints", *schema.VIEWS, *schema.DEAD_LETTERS)
# SHA-256 of the definitions in a store of each older format.
_SCHEMAS = {
    16: "fa4e3044397002c74609661254416b341428e76afcece618428c77badab9255b",
    17: "d9f1ae04383058c07d83ac0370b06a17a1e1c4a36b2cb90c4a792a10c8a3bfff",
}
_format = migrations.Format(__package__)
steps, latest, oldest, require_known = _format.steps, _format.latest, _format.oldest, _format.require_known


def version_of(connection: sqlite3.Connection) -> int:
    """The number of the last step taken; 0 in a database that is still empty."""
    return schema.VersionedFile(connection).version()


@cache
def objects() -> str:
    """The script that creates every table, index, trigger and view that does not exist."""
    folder = resources.files(__package__).joinpath("sql", "schema")
    own = [file.read_text() for file in sorted(folder.iterdir(), key=lambda file: file.name)]
    return "\n".join([*own, schema.script(*_SHARED)])


class _Store(schema.VersionedFile):
    """The file of a store that is created or migrated."""

    def __init__(self, connection: sqlite3.Connection, profile: str, clock: Callable[[], int]) -> None:
        super().__init__(connection)
        self._identity = (profile, clock)

    def take(self, step: Migration) -> None:
        is_new = not self.version()
        super().take(step)
        if step.number == latest():  # the steps before it lead to the schema of their own format
            schema.run(self._connection, objects())
        if is_new:
            profile, clock = self._identity
            self._connection.execute(statements.named("insert_store"), (profile, clock()))


def migrate(connection: sqlite3.Connection, *, profile: str, clock: Callable[[], int]) -> list[Migration]:
    """Create the store, or take the steps that it lacks. Returns what was done by this call."""
    store = _Store(connection, profile, clock)
    return migrations.migrate(store, steps() if store.version() else [Migration(latest(), "schema", "")])


def is_unchanged(connection: sqlite3.Connection) -> bool:
    """Whether a store of an older format has the schema of that format: a step must not hide what was changed."""
    return _digest(schema.definitions(connection)) == _SCHEMAS[version_of(connection)]


def _digest(definitions: dict[str, str]) -> str:
    found = [(name, schema.normal(sql)) for name, sql in sorted(definitions.items())]
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()


@cache
def expected_schema(kind: str = "%") -> dict[str, str]:
    """What `schema.definitions` gives for a store of the latest format."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(connection, profile="plain", clock=lambda: 0)
        return schema.definitions(connection, kind)
    finally:
        connection.close()
