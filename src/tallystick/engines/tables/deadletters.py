"""Dead letters in a SQLite table, one row per letter. `kept_counts` has their number, which changes with them."""

from __future__ import annotations

import sqlite3

from tallystick import errors
from tallystick.engines.tables import statements
from tallystick.engines.tables.connection import Connections
from tallystick.store.deadletters import DeadLetter, LetterCounts


class SqliteDeadLetters:
    """The table `dead_letters` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def park(self, letter: DeadLetter) -> None:
        fields = tuple(getattr(letter, name) for name in DeadLetter.__struct_fields__)
        with self._connections.writing() as connection:
            if connection.execute(statements.named("add_dead_letter"), fields).rowcount:
                connection.execute(statements.named("change_letter_count"), (1,))
            else:
                connection.execute(statements.named("replace_dead_letter"), fields)

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        with self._connections.snapshot() as connection:
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
        with self._connections.snapshot() as connection:
            found = [DeadLetter(*row) for row in connection.execute(statements.named("list_dead_letters"), values)]
            if len(found) < limit:
                counts = _counts(connection)
                counts.require_whole()
                there = counts.found if consumer is None else counts.by_consumer.get(consumer, 0)
                if after == 0 and len(found) != there:
                    raise errors.DeadLettersDamaged(kept=str(there), found=len(found))
            return found

    def remove(self, consumer: str, position: int) -> bool:
        with self._connections.writing() as connection:
            if not connection.execute(statements.named("delete_dead_letter"), (consumer, position)).rowcount:
                return False
            connection.execute(statements.named("change_letter_count"), (-1,))
            return True

    def counts(self) -> LetterCounts:
        with self._connections.snapshot() as connection:
            return _counts(connection)

    def recount(self) -> LetterCounts:
        with self._connections.writing() as connection:
            before = _counts(connection)
            connection.execute(statements.named("count_letters_again"))
            return before

    def redact(self, position: int, reason: str) -> None:
        with self._connections.writing() as connection:
            connection.execute(statements.named("redact_dead_letters"), {"position": position, "reason": reason})


def _counts(connection: sqlite3.Connection) -> LetterCounts:
    kept = connection.execute(statements.named("find_letter_count")).fetchone()
    found = dict(connection.execute(statements.named("count_dead_letters")).fetchall())
    return LetterCounts(kept=kept[0] if kept else None, by_consumer=found)
