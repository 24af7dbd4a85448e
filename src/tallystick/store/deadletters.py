"""Dead letters: events that a consumer could not handle, stored next to the log until they are replayed or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from tallystick import errors

_PAGE = 1000


class DeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """One event that one consumer gave up on. The event itself stays in the log."""

    consumer: str
    position: int
    stream: str
    seq: int
    type: str
    attempts: int
    parked: int
    reason: str


class LetterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters were stored (None if that is unknown), and how many each consumer has."""

    kept: int | None
    by_consumer: dict[str, int]

    @property
    def found(self) -> int:
        """How many letters were found."""
        return sum(self.by_consumer.values())

    @property
    def whole(self) -> bool:
        """Whether as many were found as were stored."""
        return self.kept == self.found

    def require_whole(self) -> None:
        """Refuse to list letters, or to say that one does not exist, if some are missing."""
        if not self.whole:
            raise errors.DeadLettersDamaged(
                kept="nobody knows how many" if self.kept is None else str(self.kept), found=self.found
            )


class DeadLetters(Protocol):
    """The letters that an engine holds, by consumer and position.

    They are counted. If not all that were stored are found, `DeadLettersDamaged` is raised at the end of a list, and
    instead of the answer that a letter does not exist.
    """

    def park(self, letter: DeadLetter) -> None:
        """Store a letter; one with the same consumer and position is replaced."""

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        """One letter; None if it does not exist."""

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        """Letters of a consumer (or of all) after a position, in order of position and consumer."""

    def remove(self, consumer: str, position: int) -> bool:
        """Remove a letter; returns whether it existed."""

    def counts(self) -> LetterCounts:
        """How many were stored and how many are found; never refused."""

    def recount(self) -> LetterCounts:
        """Accept the letters that are found as all; returns the counts from before."""

    def redact(self, position: int, reason: str) -> None:
        """Replace the reason of every letter about this event: it may quote the erased payload."""


def every(found: DeadLetters, consumer: str | None = None) -> Iterator[DeadLetter]:
    """All letters of a consumer, or of all consumers, in order of position and consumer."""
    last, at_last = 0, set[str]()
    while True:
        page = found.letters(consumer, after=max(last - 1, 0), limit=_PAGE + len(at_last))
        fresh = [letter for letter in page if letter.position > last or letter.consumer not in at_last]
        if not fresh:
            return
        yield from fresh
        end = fresh[-1].position
        at_last = {letter.consumer for letter in page if letter.position == end}
        last = end
