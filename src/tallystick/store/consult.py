"""Consultations of an engine that has nothing recorded past its head: read the matching events, and miss none."""

from __future__ import annotations

from typing import Protocol

from tallystick import errors
from tallystick.event import limits
from tallystick.event.model import Event
from tallystick.store import iterate
from tallystick.store.events import Consulted, EventLog
from tallystick.store.maintenance import PrunedEvent
from tallystick.store.query import Condition, Query, Subject
from tallystick.store.selection import Selection


class IndexedLog(EventLog, Protocol):
    """A log with an index of tags and types."""

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        """As `ledger.View` has it."""


def consult(log: IndexedLog, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
    """See `EventLog.consult`."""
    head = log.head()
    selection = Selection(query=query, org=org)
    pages = iterate.pages(log, after=after, until=head, selection=selection, over_pruned=True)
    events = [event for page in pages for event in page.events]
    if not over_pruned and log.floor() > after:
        require_unpruned(log.matches(Condition(query, after, org=org), limit=limits.INT_MAX), events, head=head)
    return Consulted(events, head)


def require_unpruned(positions: list[int], events: list[Event], *, head: int) -> None:
    """Refuse a consultation that lacks events, given the positions of everything that matches."""
    missing = {position for position in positions if position <= head} - {event.position for event in events}
    if missing:
        raise errors.HistoryPruned(what="matching events at positions", first=min(missing), last=max(missing))


def may_match(condition: Condition, gone: PrunedEvent) -> bool:
    """Whether a pruned event counts. If its type was not kept, it may have any."""
    if gone.position <= condition.after or condition.org not in (None, gone.org):
        return False
    if gone.type is None:
        return any(not item.tags for item in condition.query.items)
    return condition.query.matches(Subject(gone.type, frozenset(gone.tags), gone.org))
