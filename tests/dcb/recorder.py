"""A recorder of `eventsourcing` over a store of ours: its position is ours, and its condition is a marker.

Its events have no streams. They are spread over the streams `dcb/all-0` to `dcb/all-63`: a stream is a chain, so one
stream would put all appends in a row.
"""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Sequence

from eventsourcing.dcb.api import (
    DCBAppendCondition,
    DCBEvent,
    DCBQuery,
    DCBReadResponse,
    DCBRecorder,
    DCBSequencedEvent,
    DCBSubscription,
)
from eventsourcing.persistence import IntegrityError

from tallystick import Event, Marker, NewEvent, Query, Selection, Store, errors, match
from tallystick.store.query import Item
from tallystick.store.selection import EVERYTHING

STREAMS = 64
PAGE = 1000
WAIT_SECONDS = 5.0


def query_of(asked: DCBQuery | None) -> Query:
    """Their query as ours. One without items matches every event."""
    if asked is None or not asked.items:
        return match()
    return Query(tuple(Item(tuple(sorted(set(item.types))), tuple(sorted(set(item.tags)))) for item in asked.items))


def selection_of(asked: DCBQuery | None) -> Selection:
    """What a reader gets."""
    query = query_of(asked)
    return EVERYTHING if query.is_everything else Selection(query=query)


def sequenced(event: Event) -> DCBSequencedEvent:
    """One of our events as theirs."""
    data = b64decode(event.data["data"])
    return DCBSequencedEvent(DCBEvent(event.type, data, list(event.tags)), event.position)


class Response(DCBReadResponse):
    """Events that were read, and up to where."""

    def __init__(self, events: list[Event], head: int | None) -> None:
        self._events = iter(events)
        self._head = head

    @property
    def head(self) -> int | None:
        """The last position that was looked at; None if nothing was."""
        return self._head

    def __next__(self) -> DCBSequencedEvent:
        return sequenced(next(self._events))


class TallyRecorder(DCBRecorder):
    """Their recorder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._appended = 0

    def read(self, query: DCBQuery | None = None, *, after: int | None = None, limit: int | None = None) -> Response:
        """The matching events. Readers stop at the head, so one that just appended waits for it."""
        if limit == 0:
            return Response([], None)
        head = self.store.wait(self._appended - 1, timeout=WAIT_SECONDS) if self._appended else self.store.head()
        begin, found = after or 0, []
        for event in self.store.events(after=begin, until=max(head, begin), selection=selection_of(query)):
            found.append(event)
            if len(found) == limit:
                return Response(found, event.position)
        return Response(found, head or None)

    def append(self, events: Sequence[DCBEvent], condition: DCBAppendCondition | None = None) -> int:
        """Append all events or none; the position of the last."""
        new = [NewEvent(each.type, {"data": b64encode(each.data).decode()}, tags=each.tags) for each in events]
        unless = None
        if condition is not None:
            after = condition.after or 0
            if after:  # a position of an append may be a little past the head
                self.store.wait(after - 1, timeout=WAIT_SECONDS)
            unless = Marker(query_of(condition.fail_if_events_match), after)
        try:
            done = self.store.append(f"dcb/all-{random.randrange(STREAMS)}", new, unless=unless)
        except errors.ConditionFailed as failed:
            raise IntegrityError(failed) from failed
        self._appended = max(self._appended, done.last_position)
        return done.last_position

    def subscribe(self, query: DCBQuery | None = None, *, after: int | None = None) -> Subscription:
        """The matching events, then new ones as they come."""
        return Subscription(self, query, after)


class Subscription(DCBSubscription[TallyRecorder]):
    """The matching events, and then new ones."""

    def __init__(self, recorder: TallyRecorder, query: DCBQuery | None, after: int | None) -> None:
        super().__init__(recorder, query, after)
        self._page: list[Event] = []

    def __next__(self) -> DCBSequencedEvent:
        while not self._page:
            if self._has_been_stopped:
                raise StopIteration
            store = self._recorder.store
            found = store.read(after=self._last_position, selection=selection_of(self._query), limit=PAGE)
            self._page = found.events
            if found.through <= self._last_position:
                store.wait(self._last_position, timeout=WAIT_SECONDS)
            if not self._page:
                self._last_position = found.through
        event, *self._page = self._page
        self._last_position = event.position
        return sequenced(event)
