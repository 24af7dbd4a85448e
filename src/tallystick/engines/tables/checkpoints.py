"""Checkpoints in a SQLite table: each save is its own durable transaction, a compare-and-set on the position."""

from __future__ import annotations

import sqlite3

from tallystick import errors
from tallystick.engines.tables import translate
from tallystick.engines.tables.connection import Connections
from tallystick.store import row_checks
from tallystick.store.checkpoints import Checkpoint

_ALL = "SELECT name, store_id, position, link_position, link, checksum FROM checkpoints"
_LOAD = f"{_ALL} WHERE name = ?"
_SAVE = """INSERT INTO checkpoints (name, store_id, position, link_position, link, checksum) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET store_id = excluded.store_id, position = excluded.position,
    link_position = excluded.link_position, link = excluded.link, checksum = excluded.checksum"""


class SqliteCheckpoints:
    """The table `checkpoints` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def load(self, name: str) -> Checkpoint | None:
        with self._connections.snapshot() as connection:
            found = _load(connection, name)
            if found is None:
                _require_none_hidden(connection)
            return found

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        with self._connections.writing() as connection:
            stored = _load(connection, checkpoint.name)
            actual = stored.position if stored else None
            if actual != previous:
                raise errors.Conflict(stream=checkpoint.name, expected=previous or 0, actual=actual or 0)
            fields = (checkpoint.name, checkpoint.store_id, checkpoint.position)
            check = row_checks.of_checkpoint(checkpoint)
            connection.execute(_SAVE, (*fields, checkpoint.link_position, checkpoint.link, check))

    def names(self) -> list[str]:
        with self._connections.snapshot() as connection:
            return [name for (name,) in connection.execute("SELECT name FROM checkpoints ORDER BY name")]

    def delete(self, name: str) -> None:
        with self._connections.writing() as connection:
            connection.execute("DELETE FROM checkpoints WHERE name = ?", (name,))


def _require_none_hidden(connection: sqlite3.Connection) -> None:
    """Read the whole table: a row is not found by its name if the row, or the index that leads to it, is damaged."""
    (answer,) = connection.execute("PRAGMA quick_check(checkpoints)").fetchone()
    if answer != "ok":
        raise translate.damage(str(answer))
    for row in connection.execute(_ALL):
        row_checks.checked_checkpoint(Checkpoint(*row[:-1]), row[-1])


def _load(connection: sqlite3.Connection, name: str) -> Checkpoint | None:
    row = connection.execute(_LOAD, (name,)).fetchone()
    return None if row is None else row_checks.checked_checkpoint(Checkpoint(*row[:-1]), row[-1])
