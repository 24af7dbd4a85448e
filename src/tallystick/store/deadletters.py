"""Events that a consumer could not handle, parked beside the log until somebody replays or drops them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from tallystick import errors

REASON_CHARACTERS_MAX = 500


_PAGE = 1000


class DeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """One event that one consumer gave up on. The event itself stays where it is, in the log."""

    consumer: str
    position: int
    stream: str
    seq: int
    type: str
    attempts: int
    parked: int
    reason: str


class LetterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters were kept, None if nobody knows any more; and how many each consumer has."""

    kept: int | None
    by_consumer: dict[str, int]

    @property
    def found(self) -> int:
        """How many there are."""
        return sum(self.by_consumer.values())

    @property
    def whole(self) -> bool:
        """Whether there are as many as were kept."""
        return self.kept == self.found

    def require_whole(self) -> None:
        """Refuse to say what is not there, if some of what was there is gone."""
        if not self.whole:
            raise errors.DeadLettersDamaged(
                kept="nobody knows how many" if self.kept is None else str(self.kept), found=self.found
            )


class DeadLetters(Protocol):
    """The letters that an engine holds, by consumer and position.

    They are counted. That a letter is not there, or that a list has ended, is said only where all that were kept are
    found; otherwise `DeadLettersDamaged` is raised.
    """

    def park(self, letter: DeadLetter) -> None:
        """Keep a letter; one of the same consumer and position is replaced."""

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        """One letter, if it is there."""

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        """Letters of a consumer (or of all) behind a position, in order of position and consumer."""

    def remove(self, consumer: str, position: int) -> bool:
        """Take a letter away; says whether it was there."""

    def counts(self) -> LetterCounts:
        """How many there should be and are; never refused."""

    def recount(self) -> LetterCounts:
        """Take what is there for all there is; returns what the counts were before."""

    def redact(self, position: int, reason: str) -> None:
        """Replace the reasons of every letter about this event: they may quote what was erased."""


def every(found: DeadLetters, consumer: str | None = None) -> Iterator[DeadLetter]:
    """All letters of a consumer, or of all, in order of position and consumer. Several may be at one position."""
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
