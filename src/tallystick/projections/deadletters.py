"""What becomes of a dead letter: handled once more and taken away, or given up."""

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
    """The dead letters that were `found` are all there are from now on; `kept` had been counted, if that was known."""

    kept: int | None
    found: int
    reason: str


def letter_of(store: Store, consumer: str, position: int) -> DeadLetter:
    """The letter of a consumer about the event at a position."""
    letter = store.log.dead_letters.load(consumer, position)
    if letter is None:
        raise errors.NoDeadLetter(consumer=consumer, position=position)
    return letter


def parse_event(store: Store, letter: DeadLetter) -> Event:
    """The event that a letter is about. If it was pruned since, or is of another history, that is said by name."""
    found = store.at(letter.stream, letter.seq)
    if found is None or (found.position, found.type) != (letter.position, letter.type):
        reason = f"its dead letter is about seq {letter.seq} of {letter.stream!r} at {letter.position}, not there"
        raise errors.WrongStore(name=letter.consumer, reason=reason)
    return found


def replay_letter(store: Store, consumer: str, position: int, handler: Handler) -> Event:
    """Handle the event once more. The letter goes when that went well; what the handler raises is raised."""
    event = parse_event(store, letter_of(store, consumer, position))
    handler(event)
    store.log.dead_letters.remove(consumer, position)
    return event


def recount_letters(store: Store, *, by: str = "", reason: str = "") -> LettersRecounted:
    """Take the letters that are left for all there are, after some vanished underneath: a fact says how many."""
    before = store.log.dead_letters.counts()
    fact = LettersRecounted(kept=before.kept, found=before.found, reason=reason)
    record(store, LETTERS_RECOUNTED, fact, by)
    store.log.dead_letters.recount()
    return fact


def drop_letter(store: Store, consumer: str, position: int) -> DeadLetter:
    """Give up on an event: its letter is taken away."""
    letter = letter_of(store, consumer, position)
    store.log.dead_letters.remove(consumer, position)
    return letter
