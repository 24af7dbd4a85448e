"""What is stored, asked of one connection: by the ledger inside a commit, and by readers outside of it."""

from __future__ import annotations

import sqlite3
from typing import Any

from tallystick.engines.sqlite import statements
from tallystick.event.model import Event
from tallystick.store import leases
from tallystick.store.ledger import Head


class SqliteView:
    """The answers of one connection, as of its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _one(self, name: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statements.named(name), values).fetchone()
        return row

    def head(self) -> int:
        """The highest position ever given."""
        row = self._one("head")
        return row[0] if row else 0

    def stream_head(self, stream: str) -> Head | None:
        row = self._one("stream_head", stream)
        return None if row is None else Head(*row)

    def find(self, id: bytes) -> Event | None:
        row = self._one("find_event", id)
        return None if row is None else Event(*row)

    def source_head(self, source: str) -> int:
        row = self._one("source_head", source)
        return row[0] if row else 0

    def lease(self, stream: str) -> leases.Lease | None:
        row = self._one("find_lease", stream)
        if row is None:
            return None
        owner = None if row[2] is None else leases.Owner(*row[2:])
        return leases.Lease(row[0], row[1], owner)

    def recorded_at(self, position: int) -> int | None:
        """When the event at a position was recorded."""
        row = self._one("recorded_at", position)
        return row[0] if row else None
