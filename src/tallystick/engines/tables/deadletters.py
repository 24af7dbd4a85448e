"""Dead letters in a SQLite table, a row a letter."""

from __future__ import annotations

from tallystick.engines.tables import statements
from tallystick.engines.tables.views import Connections
from tallystick.store.deadletters import DeadLetter

SCHEMA = statements.named("create_dead_letters")


class SqliteDeadLetters:
    """The table `dead_letters` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def park(self, letter: DeadLetter) -> None:
        fields = tuple(getattr(letter, name) for name in DeadLetter.__struct_fields__)
        with self._connections.writing() as connection:
            connection.execute(statements.named("put_dead_letter"), fields)

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        with self._connections.snapshot() as connection:
            row = connection.execute(statements.named("find_dead_letter"), (consumer, position)).fetchone()
        return None if row is None else DeadLetter(*row)

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        values = {"consumer": consumer, "after": after, "limit": limit}
        with self._connections.snapshot() as connection:
            return [DeadLetter(*row) for row in connection.execute(statements.named("list_dead_letters"), values)]

    def remove(self, consumer: str, position: int) -> bool:
        with self._connections.writing() as connection:
            return connection.execute(statements.named("delete_dead_letter"), (consumer, position)).rowcount == 1

    def redact(self, position: int, reason: str) -> None:
        with self._connections.writing() as connection:
            connection.execute(statements.named("redact_dead_letters"), {"position": position, "reason": reason})
