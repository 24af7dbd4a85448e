"""Dead letters in the table `tally.dead_letters`, a row a letter."""

from __future__ import annotations

import msgspec

from tallystick.engines.postgres.keeping import Keeping
from tallystick.store.deadletters import DeadLetter


class PostgresDeadLetters:
    """The letters of one database."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping

    def park(self, letter: DeadLetter) -> None:
        *fields, reason = msgspec.structs.astuple(letter)
        self._keeping.change("put_dead_letter", (*fields, _storable(reason)))

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        found = self._keeping.rows("find_dead_letter", (consumer, position))
        return DeadLetter(*found[0]) if found else None

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        values = {"consumer": consumer, "after": after, "limit": limit}
        return [DeadLetter(*row) for row in self._keeping.rows("list_dead_letters", values)]

    def remove(self, consumer: str, position: int) -> bool:
        return bool(self._keeping.change("delete_dead_letter", (consumer, position)))

    def redact(self, position: int, reason: str) -> None:
        self._keeping.change("redact_dead_letters", (_storable(reason), position))


def _storable(reason: str) -> str:
    """The reason as PostgreSQL can hold it: what a handler raised may say anything, and must not stop its consumer."""
    return reason.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
