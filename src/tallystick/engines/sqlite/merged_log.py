"""The rest of a damaged log and the events of a donor, merged into one log. Every event is checked on the way.

An event is lost if it cannot be read, does not match its checksum, or is missing. If two neighbours of a stream do not
follow each other, one of them was changed: then the donor is asked for both, and the chain decides.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import statements, survey
from tallystick.engines.sqlite.rows import event_of
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import translate
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.maintenance import before_cut
from tallystick.store.page import Hole
from tallystick.store.refill import Donor

_CUTS_MAX = 1 << 62


class MergedEvent(NamedTuple):
    """An event, when it was recorded, and whether the donor gave it."""

    event: Event
    recorded: int
    is_given: bool


class MergedLog:
    """The log as it was. The constructor reads everything that is left, and does not ask the donor yet."""

    def __init__(
        self, connection: sqlite3.Connection, donor: Donor, *, url: str, progress: Callable[[int], None]
    ) -> None:
        self._connection = connection
        self._donor = donor
        self._url = url
        self._progress = progress
        view = SqliteView(connection)
        self.head = view.head()
        store_id, _ = connection.execute(statements.named("identity")).fetchone()
        self._is_copy = donor.log is not None and donor.log.store_id == store_id
        self._cuts = {cut.stream: before_cut(cut) for cut in view.cuts(after="", limit=_CUTS_MAX)}
        self._erased = dict(connection.execute("SELECT position, checksum FROM erasures"))
        self._ends = {
            name: Head(*end) for name, *end in connection.execute("SELECT stream, seq, link, org FROM streams")
        }
        self._lost = [(hole.first, hole.last) for hole in survey.holes_in(connection, reason="") if hole.first]
        self._suspects = set(self._suspicious())
        doubtful = self._lost + [(position, position) for position in self._suspects]
        self.wanted = [Hole(first, last, "refilled") for first, last in survey.merge_ranges(doubtful)]
        self.heads: dict[str, Head] = {}

    def _suspicious(self) -> Iterator[int]:
        """The positions of events that match their checksum but not their neighbours."""
        before: dict[str, Event] = {}
        for event, _, _ in self._left_between(self._lost):
            known = before.get(event.stream)
            seq, link = (known.seq, known.link) if known else self._cuts.get(event.stream, (0, chain.GENESIS))
            fits = event.seq == seq + 1 and chain.link(event, link) == event.link
            if not fits and (event.seq <= seq + 1):
                yield event.position
                if known is not None:
                    yield known.position
            if event.payload is None and event.position not in self._erased:
                yield event.position
            before[event.stream] = event

    def events(self) -> Iterator[MergedEvent]:
        """Every event in order, checked. Refuses at the first one that does not fit, or that is found nowhere."""
        heads = {name: Head(*cut) for name, cut in self._cuts.items()}
        for found in self._merged():
            checked = self._checked(found, heads.get(found.event.stream, NO_HEAD))
            event = checked.event
            known = self._ends.get(event.stream)
            heads[event.stream] = Head(event.seq, event.link, known.org if known else None)
            yield checked
        for stream, end in self._ends.items():
            reached = heads.get(stream, NO_HEAD)
            if (reached.seq, reached.link) != (end.seq, end.link):
                raise self.refused(
                    f"{stream} would end at seq {reached.seq}; its recorded end is {end.seq}, or another"
                )
        self.heads = heads | self._ends

    def _merged(self) -> Iterator[MergedEvent]:
        at = 1
        for hole in self.wanted:
            yield from self._left(at, hole.first - 1)
            yield from self._given(hole.first, hole.last)
            at = hole.last + 1
        yield from self._left(at, self.head)

    def _left_between(self, holes: list[tuple[int, int]]) -> Iterator[MergedEvent]:
        at = 1
        for first, last in holes:
            yield from self._left(at, first - 1)
            at = last + 1
        yield from self._left(at, self.head)

    def _left(self, first: int, last: int) -> Iterator[MergedEvent]:
        for *row, recorded in self._connection.execute(statements.named("left_events"), (first, last)):
            yield MergedEvent(event_of(row), recorded, is_given=False)
        self._progress(last)

    def _given(self, first: int, last: int) -> Iterator[MergedEvent]:
        """A range from the donor. An event that it does not have must be here after all, or be pruned."""
        pruned = survey.pruned_between(self._connection, first, last)
        at = first
        for event in self._donor.events(first, last):
            if event.position < at:
                raise self.refused(f"its events are not in order at position {event.position}")
            yield from self._own(at, event.position - 1, pruned)
            at = event.position + 1
            if event.position not in pruned:
                log = self._donor.log
                recorded = log.recorded_at(event.position) if log is not None else None
                yield MergedEvent(event, event.time if recorded is None else recorded, is_given=True)
        yield from self._own(at, last, pruned)

    def _own(self, first: int, last: int, pruned: set[int]) -> Iterator[MergedEvent]:
        for position in range(first, last + 1):
            if position in self._suspects:
                yield from self._left(position, position)
            elif position not in pruned:
                raise self.refused(f"it does not hold positions {position} to {last}")

    def _checked(self, found: MergedEvent, before: Head) -> MergedEvent:
        event = found.event
        whose = "its event" if found.is_given else "what is left"
        if found.is_given and event.stream not in self._ends:
            raise self.refused(f"{whose} at position {event.position} is of {event.stream}, which this store never had")
        known = self._known_position(event) if found.is_given and not self._is_copy else None
        if known not in (None, event.position):
            raise self.refused(f"{whose} at position {event.position} was at position {known} here")
        if event.seq != before.seq + 1 or chain.link(event, before.link) != event.link:
            reason = f"{whose} at position {event.position} does not follow from the event of its stream before it"
            raise self.refused(reason)
        if event.position in self._erased:
            return found._replace(event=msgspec.structs.replace(event, payload=None))
        if event.payload is None:
            raise self.refused(f"{whose} at position {event.position} is erased, and no erasure is recorded here")
        if chain.checksum(event.payload) != event.checksum:
            raise self.refused(f"{whose} at position {event.position} does not have its checksum")
        return found

    def _known_position(self, event: Event) -> int | None:
        """Where an event was, if that can still be read: the index over streams may be intact where the row is not.

        No link covers a position, so another store may have the same streams in another order.
        """
        try:
            row = self._connection.execute(statements.named("find_position"), (event.stream, event.seq)).fetchone()
        except sqlite3.DatabaseError as problem:
            if not translate.is_damage(problem):
                raise
            return None
        return row[0] if row else None

    def refused(self, reason: str) -> errors.RefillRefused:
        """The error that says why nothing is changed."""
        return errors.RefillRefused(url=self._url, source=self._donor.name, reason=reason)
