"""Dead letters in the table `tally.dead_letters`, a row a letter. Their number stands in `tally.kept_counts`."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.engines.postgres import statements
from tallystick.engines.postgres.transactions import Keeping
from tallystick.store.deadletters import DeadLetter, LetterCounts


class PostgresDeadLetters:
    """The letters of one database."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping

    def park(self, letter: DeadLetter) -> None:
        *fields, reason = msgspec.structs.astuple(letter)
        self._keeping.change("put_dead_letter", (*fields, _storable(reason)))

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        found = self._keeping.rows("find_dead_letter", (consumer, position))
        if not found:
            self.counts().require_whole()
            return None
        return DeadLetter(*found[0])

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        values = {"consumer": consumer, "after": after, "limit": limit}
        found = [DeadLetter(*row) for row in self._keeping.rows("list_dead_letters", values)]
        if len(found) < limit:
            self.counts().require_whole()
        return found

    def remove(self, consumer: str, position: int) -> bool:
        return bool(self._keeping.change("delete_dead_letter", (consumer, position)))

    def counts(self) -> LetterCounts:
        return _counts(self._keeping.rows("count_dead_letters"))

    def recount(self) -> LetterCounts:
        with self._keeping.writing() as connection:
            connection.execute(statements.named("lock_letters"))
            before = _counts(connection.execute(statements.named("count_dead_letters"), binary=True).fetchall())
            connection.execute(statements.named("count_letters_again"))
            return before

    def redact(self, position: int, reason: str) -> None:
        self._keeping.change("redact_dead_letters", (_storable(reason), position))


def _counts(rows: list[tuple[Any, ...]]) -> LetterCounts:
    (_, kept), *found = rows
    return LetterCounts(kept=kept, by_consumer=dict(found))


def _storable(reason: str) -> str:
    """The reason as PostgreSQL can hold it: what a handler raised may say anything, and must not stop its consumer."""
    return reason.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
