"""The bodies of snapshots, in the table `snapshots`. Commits add and drop them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import statements
from tallystick.engines.tables.database import Database
from tallystick.store.leases import LEASED_KIND
from tallystick.store.snapshots import Snapshot, within

_RUN = LEASED_KIND + "/"


def insert(connection: sqlite3.Connection, bodies: Sequence[Snapshot]) -> None:
    """Store snapshots, inside of the transaction of their facts."""
    connection.executemany(statements.named("insert_snapshot"), list(map(_values_of, bodies)))


def _values_of(snapshot: Snapshot) -> dict[str, Any]:
    run_id = snapshot.stream.removeprefix(_RUN) if snapshot.stream.startswith(_RUN) else None
    return msgspec.structs.asdict(snapshot) | {"run_id": run_id}


class SqliteSnapshots:
    """The bodies in the table, by the id of their control fact."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        try:
            with self._database.reading() as connection:
                row = connection.execute(statements.named("find_snapshot"), (id,)).fetchone()
        except errors.Damaged:  # a fold starts from an older snapshot then, and `tally verify` names this one
            return None
        return within(row[0], bytes_max) if row is not None and type(row[0]) is bytes else None

    def put_back(self, snapshot: Snapshot) -> None:
        """Write the row of a snapshot again that is missing or damaged."""
        with self._database.maintaining() as connection:
            connection.execute(statements.named("drop_snapshot"), (snapshot.id,))
            insert(connection, [snapshot])

    def ids(self) -> list[bytes]:
        with self._database.reading() as connection:
            found = connection.execute(statements.named("list_snapshots"))
            return [id_ for (id_,) in found if type(id_) is bytes]  # the fact of a damaged row shows that it is missing

    def size(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(statements.named("snapshots_size")).fetchone()[0])
