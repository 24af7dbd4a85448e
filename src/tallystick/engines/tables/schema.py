"""The schema of a SQLite file: `sql/schema/` has one table per file, with its indexes and triggers.

Every statement creates an object only if it does not exist, so that a script can also complete a file that has some.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib import resources

from tallystick import errors
from tallystick.engines.tables import migrations
from tallystick.engines.tables.migrations import Migration

VIEWS = ("views", "view_rows", "batch_rows")
DEAD_LETTERS = ("dead_letters", "kept_counts")
_SIDE_FORMAT = 1
_LITERAL = re.compile(r"('(?:[^']|'')*')")
_MADE_BY_SQLITE = frozenset(
    {
        "CREATE TABLE sqlite_sequence(name,seq)",
        "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)


@cache
def script(*tables: str) -> str:
    """What creates these of the tables that several engines keep."""
    folder = resources.files(__package__).joinpath("sql", "schema")
    return "\n".join(folder.joinpath(f"{table}.sql").read_text() for table in tables)


def definitions(connection: sqlite3.Connection, kind: str = "%") -> dict[str, str]:
    """The SQL of every table, index, trigger and view, or of those of one kind, without what SQLite itself creates.

    What SQLite creates is recognised by its whole definition: anyone can write a name like `sqlite_…` into a schema.
    """
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type LIKE ?"
    found = connection.execute(query, (kind,))
    return {str(name): sql for name, sql in found if sql not in _MADE_BY_SQLITE}


def differences(found: dict[str, str], expected: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The name of every object that is not as expected, and what is wrong with it."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            yield name, "is missing"
        elif name not in expected:
            yield name, "does not belong to it"
        elif found[name] != expected[name] and normal(found[name]) != normal(expected[name]):
            yield name, "was changed"


def normal(sql: str) -> str:
    """A definition with single spaces outside of text literals: ALTER TABLE leaves other line breaks than a script."""
    parts = _LITERAL.split(sql) if isinstance(sql, str) else [repr(sql)]
    parts[::2] = [re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", part)) for part in parts[::2]]
    return "".join(parts).strip()


def create(connection: sqlite3.Connection, tables: tuple[str, ...], *, path: str) -> None:
    """Create the tables of a side database, unless it has them. Damage is refused as damage."""
    if damage := damage_in(connection, tables, path=path):
        raise errors.Damaged(first=0, last=0, reason=damage)
    migrations.migrate(VersionedFile(connection), [Migration(_SIDE_FORMAT, "schema", script(*tables))])


def damage_in(connection: sqlite3.Connection, tables: tuple[str, ...], *, path: str) -> str:
    """What is wrong with the tables of a side database. One of another format is not damaged: it is refused by name."""
    version = VersionedFile(connection).version()
    found, expected = definitions(connection), _definitions_of(tables)
    ours = {name: sql for name, sql in found.items() if name in expected}
    if version == 0:  # nothing is created yet, or an earlier version wrote it
        expected = {name: sql for name, sql in expected.items() if name in ours}
    wrong = next(differences(ours, expected), None)
    if wrong is None:
        return ""
    if version > _SIDE_FORMAT:
        raise errors.NewerFormat(path=path, found=version, known=_SIDE_FORMAT)
    if version < _SIDE_FORMAT:
        reason = "its format is older: move it away, and consumers and projections start again"
        raise errors.ReadFailed(path=path, reason=reason)
    return " ".join(wrong)


@cache
def _definitions_of(tables: tuple[str, ...]) -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script(*tables))
        return definitions(connection)


class VersionedFile:
    """A SQLite file as the runner of migrations sees it. `user_version` is the number of the last step."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def changing(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def take(self, step: Migration) -> None:
        run(self._connection, step.sql)
        self._connection.execute(f"PRAGMA user_version = {step.number:d}")


def run(connection: sqlite3.Connection, sql: str) -> None:
    """Run a script inside of the transaction that is open: `executescript` would commit it."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            connection.execute(pending)
            pending = ""
    assert not pending.strip(), pending
