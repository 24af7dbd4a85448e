"""Checkpoints and dead letters of consumers in SQLite tables.

Each save of a checkpoint is a durable transaction of its own: a compare-and-set on the position. `kept_counts` has the
number of dead letters, which changes with them.
"""

from __future__ import annotations

import sqlite3

import msgspec

from tallystick import errors
from tallystick.engines.tables import statements, translate
from tallystick.engines.tables.connection import SqliteTransactions
from tallystick.store import row_checks
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.deadletters import DeadLetter, LetterCounts


class SqliteCheckpoints:
    """The table `checkpoints` of a database."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def load(self, name: str) -> Checkpoint | None:
        with self._transactions.snapshot() as connection:
            found = _load(connection, name)
            if found is None:
                _require_none_hidden(connection)
            return found

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        with self._transactions.writing() as connection:
            stored = _load(connection, checkpoint.name)
            actual = stored.position if stored else None
            if actual != previous:
                raise errors.Conflict(stream=checkpoint.name, expected=previous or 0, actual=actual or 0)
            values = (*msgspec.structs.astuple(checkpoint), row_checks.of_checkpoint(checkpoint))
            connection.execute(statements.named("save_checkpoint"), values)

    def names(self) -> list[str]:
        with self._transactions.snapshot() as connection:
            return [name for (name,) in connection.execute(statements.named("list_checkpoints"))]

    def delete(self, name: str) -> None:
        with self._transactions.writing() as connection:
            connection.execute(statements.named("delete_checkpoint"), (name,))


def _require_none_hidden(connection: sqlite3.Connection) -> None:
    """Read the whole table: a row is not found by its name if the row, or the index that leads to it, is damaged."""
    (answer,) = connection.execute("PRAGMA quick_check(checkpoints)").fetchone()
    if answer != "ok":
        raise translate.damage(str(answer))
    for *fields, checksum in connection.execute(statements.named("read_checkpoints")):
        row_checks.checked_checkpoint(Checkpoint(*fields), checksum)


def _load(connection: sqlite3.Connection, name: str) -> Checkpoint | None:
    row = connection.execute(statements.named("find_checkpoint"), (name,)).fetchone()
    if row is None:
        return None
    *fields, checksum = row
    return row_checks.checked_checkpoint(Checkpoint(*fields), checksum)


class SqliteDeadLetters:
    """The table `dead_letters` of a database."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def park(self, letter: DeadLetter) -> None:
        fields = msgspec.structs.astuple(letter)
        with self._transactions.writing() as connection:
            if connection.execute(statements.named("add_dead_letter"), fields).rowcount:
                connection.execute(statements.named("change_letter_count"), (1,))
            else:
                connection.execute(statements.named("replace_dead_letter"), fields)

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        with self._transactions.snapshot() as connection:
            row = connection.execute(statements.named("find_dead_letter"), (consumer, position)).fetchone()
            if row is not None:
                return DeadLetter(*row)
            counts = _counts(connection)
            counts.require_whole()
            if connection.execute(statements.named("look_for_dead_letter"), (consumer, position)).fetchone():
                raise errors.DeadLettersDamaged(kept=str(counts.kept), found=counts.found - 1)
            return None

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        values = {"consumer": consumer, "after": after, "limit": limit}
        with self._transactions.snapshot() as connection:
            found = [DeadLetter(*row) for row in connection.execute(statements.named("list_dead_letters"), values)]
            if len(found) < limit:
                counts = _counts(connection)
                counts.require_whole()
                there = counts.found if consumer is None else counts.by_consumer.get(consumer, 0)
                if after == 0 and len(found) != there:
                    raise errors.DeadLettersDamaged(kept=str(there), found=len(found))
            return found

    def remove(self, consumer: str, position: int) -> bool:
        with self._transactions.writing() as connection:
            if not connection.execute(statements.named("delete_dead_letter"), (consumer, position)).rowcount:
                return False
            connection.execute(statements.named("change_letter_count"), (-1,))
            return True

    def counts(self) -> LetterCounts:
        with self._transactions.snapshot() as connection:
            return _counts(connection)

    def recount(self) -> LetterCounts:
        with self._transactions.writing() as connection:
            before = _counts(connection)
            connection.execute(statements.named("count_letters_again"))
            return before

    def redact(self, position: int, reason: str) -> None:
        with self._transactions.writing() as connection:
            connection.execute(statements.named("redact_dead_letters"), {"position": position, "reason": reason})


def _counts(connection: sqlite3.Connection) -> LetterCounts:
    kept = connection.execute(statements.named("find_letter_count")).fetchone()
    found = dict(connection.execute(statements.named("count_dead_letters")).fetchall())
    return LetterCounts(kept=kept[0] if kept else None, by_consumer=found)
