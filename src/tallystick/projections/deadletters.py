"""Replaying or dropping dead letters, and recounting them after some were lost."""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event.model import Event
from tallystick.projections.consumer import Handler
from tallystick.projections.retire import record
from tallystick.store.deadletters import DeadLetter
from tallystick.store.store import Store

LETTERS_RECOUNTED = "tally.letters.recounted"


class LettersRecounted(msgspec.Struct, frozen=True, kw_only=True):
    """From now on the dead letters that were `found` count as all; `kept` was the count before, if it was known."""

    kept: int | None
    found: int
    reason: str


def letter_of(store: Store, consumer: str, position: int) -> DeadLetter:
    """The dead letter of a consumer about the event at a position."""
    letter = store.log.dead_letters.load(consumer, position)
    if letter is None:
        raise errors.NoDeadLetter(consumer=consumer, position=position)
    return letter


def event_of(store: Store, letter: DeadLetter) -> Event:
    """The event that a letter is about. An event that was pruned, or is of another history, is refused by name."""
    found = store.at(letter.stream, letter.seq)
    if found is None or (found.position, found.type) != (letter.position, letter.type):
        reason = (
            f"its dead letter is about seq {letter.seq} of {letter.stream!r} at {letter.position}, which is not there"
        )
        raise errors.WrongStore(name=letter.consumer, reason=reason)
    return found


def replay_letter(store: Store, consumer: str, position: int, handler: Handler) -> Event:
    """Call the handler with the event. If it succeeds, the dead letter is deleted; otherwise its error is raised."""
    event = event_of(store, letter_of(store, consumer, position))
    handler(event)
    store.log.dead_letters.remove(consumer, position)
    return event


def recount_letters(store: Store, *, by: str = "", reason: str = "") -> LettersRecounted:
    """Accept that dead letters were lost: those that are left count as all, and a control fact records it."""
    before = store.log.dead_letters.counts()
    fact = LettersRecounted(kept=before.kept, found=before.found, reason=reason)
    record(store, LETTERS_RECOUNTED, fact, by)
    store.log.dead_letters.recount()
    return fact


def drop_letter(store: Store, consumer: str, position: int) -> DeadLetter:
    """Delete the dead letter about an event, without handling it."""
    letter = letter_of(store, consumer, position)
    store.log.dead_letters.remove(consumer, position)
    return letter
