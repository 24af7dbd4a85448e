"""Checkpoints in a table: each save is its own durable transaction, a compare-and-set on the position."""

from __future__ import annotations

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import Connections
from tallystick.store import row_checks
from tallystick.store.checkpoints import Checkpoint


class PostgresCheckpoints:
    """The table `tally.checkpoints`."""

    def __init__(self, connections: Connections, *, readonly_reason: str | None) -> None:
        self._connections = connections
        self._readonly_reason = readonly_reason

    def load(self, name: str) -> Checkpoint | None:
        rows = self._connections.rows("find_checkpoint", (name,))
        return row_checks.checked_checkpoint(Checkpoint(*rows[0][:-1]), rows[0][-1]) if rows else None

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        self._require_writing()
        at = (checkpoint.position, checkpoint.link_position, checkpoint.link)
        place = (checkpoint.store_id.hex(), *at, row_checks.of_checkpoint(checkpoint))
        with self._connections.using() as connection:
            if previous is None:
                saved = connection.execute(statements.named("insert_checkpoint"), (checkpoint.name, *place))
            else:
                values = (*place, checkpoint.name, previous)
                saved = connection.execute(statements.named("move_checkpoint"), values)
        if not saved.rowcount:
            stored = self.load(checkpoint.name)
            actual = stored.position if stored else 0
            raise errors.Conflict(stream=checkpoint.name, expected=previous or 0, actual=actual)

    def names(self) -> list[str]:
        return [name for (name,) in self._connections.rows("list_checkpoints")]

    def delete(self, name: str) -> None:
        self._require_writing()
        with self._connections.using() as connection:
            connection.execute(statements.named("delete_checkpoint"), (name,))

    def _require_writing(self) -> None:
        if self._readonly_reason is not None:
            raise errors.ReadOnly(reason=self._readonly_reason)
