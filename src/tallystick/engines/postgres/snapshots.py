"""The bodies of snapshots, in the table `tally.snapshots`. They come and go with commits."""

from __future__ import annotations

from tallystick.engines.postgres.connections import Reading
from tallystick.store.snapshots import within


class PostgresSnapshots:
    """What the table holds, by the id of the control fact."""

    def __init__(self, connections: Reading) -> None:
        self._connections = connections

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        rows = self._connections.rows("find_snapshot", (id.hex(),))
        return within(rows[0][0], bytes_max) if rows else None

    def ids(self) -> list[bytes]:
        return [id_ for (id_,) in self._connections.rows("list_snapshots")]

    def size(self) -> int:
        return int(self._connections.rows("snapshots_size")[0][0])
