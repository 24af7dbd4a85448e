"""What consumers keep: checkpoints in `tally.checkpoints`, dead letters in `tally.dead_letters`.

Each save of a checkpoint is a durable transaction of its own, a compare-and-set on the position. The number of dead
letters is in `tally.kept_counts`, so that one that vanished is noticed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import ServerConnections
from tallystick.engines.postgres.transactions import Transactions
from tallystick.store import row_checks
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.deadletters import DeadLetter, LetterCounts


class PostgresCheckpoints:
    """The checkpoints of one database. `readonly_reason` says why this handle may not write them."""

    def __init__(self, connections: ServerConnections, *, readonly_reason: str | None) -> None:
        self._connections = connections
        self._readonly_reason = readonly_reason

    def load(self, name: str) -> Checkpoint | None:
        rows = self._connections.rows("find_checkpoint", (name,))
        if not rows:
            return None
        *fields, checksum = rows[0]
        return row_checks.checked_checkpoint(Checkpoint(*fields), checksum)

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        self._require_writing()
        at = (checkpoint.position, checkpoint.link_position, checkpoint.link)
        place = (checkpoint.store_id.hex(), *at, row_checks.of_checkpoint(checkpoint))
        with self._connections.connection() as connection:
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
        with self._connections.connection() as connection:
            connection.execute(statements.named("delete_checkpoint"), (name,))

    def _require_writing(self) -> None:
        if self._readonly_reason is not None:
            raise errors.ReadOnly(reason=self._readonly_reason)


class PostgresDeadLetters:
    """The dead letters of one database."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def park(self, letter: DeadLetter) -> None:
        *fields, reason = msgspec.structs.astuple(letter)
        self._transactions.change("put_dead_letter", (*fields, _storable(reason)))

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        found = self._transactions.rows("find_dead_letter", (consumer, position))
        if not found:
            self.counts().require_whole()
            return None
        return DeadLetter(*found[0])

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        values = {"consumer": consumer, "after": after, "limit": limit}
        found = [DeadLetter(*row) for row in self._transactions.rows("list_dead_letters", values)]
        if len(found) < limit:
            self.counts().require_whole()
        return found

    def remove(self, consumer: str, position: int) -> bool:
        return bool(self._transactions.change("delete_dead_letter", (consumer, position)))

    def counts(self) -> LetterCounts:
        return _counts(self._transactions.rows("count_dead_letters"))

    def recount(self) -> LetterCounts:
        with self._transactions.writing() as connection:
            connection.execute(statements.named("lock_letters"))
            before = _counts(connection.execute(statements.named("count_dead_letters"), binary=True).fetchall())
            connection.execute(statements.named("count_letters_again"))
            return before

    def redact(self, position: int, reason: str) -> None:
        self._transactions.change("redact_dead_letters", (_storable(reason), position))


def _counts(rows: list[tuple[Any, ...]]) -> LetterCounts:
    (_, kept), *found = rows
    return LetterCounts(kept=kept, by_consumer=dict(found))


def _storable(reason: str) -> str:
    """The reason as PostgreSQL can hold it. A handler's error can have any text, which must not stop its consumer."""
    return reason.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
