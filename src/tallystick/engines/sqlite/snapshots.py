"""The bodies of snapshots, in the table `snapshots`. They come and go with commits."""

from __future__ import annotations

from tallystick import errors
from tallystick.engines.sqlite import maintenance, statements
from tallystick.engines.tables.database import Database
from tallystick.store.snapshots import Snapshot, within


class SqliteSnapshots:
    """What the table holds, by the id of the control fact."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        try:
            with self._database.reading() as connection:
                row = connection.execute(statements.named("find_snapshot"), (id,)).fetchone()
        except errors.Damaged:  # a fold then starts from an older snapshot, and `tally verify` names this one
            return None
        return within(row[0], bytes_max) if row is not None and type(row[0]) is bytes else None

    def put_back(self, snapshot: Snapshot) -> None:
        """Make the row of a snapshot of the log again: it is missing or damaged."""
        with self._database.maintaining() as connection:
            maintenance.replace_snapshot(connection, snapshot)

    def ids(self) -> list[bytes]:
        with self._database.reading() as connection:
            found = connection.execute(statements.named("list_snapshots"))
            return [
                id_ for (id_,) in found if type(id_) is bytes
            ]  # of a damaged row, the fact tells that it is missing

    def size(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(statements.named("snapshots_size")).fetchone()[0])
