"""Newest-first pages of the log by cursor. Nothing is counted, and a rare filter looks back a bounded way at a time."""

from __future__ import annotations

import time

import msgspec

from tallystick.event.model import Event
from tallystick.store.page import Hole
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.store import Store

PAGE_EVENTS = 50
WINDOW_MAX = 10_000
LOOKED_MAX = 400_000
LOOK_SECONDS = 0.5


class EventList(msgspec.Struct):
    """Events, newest first. Everything behind `reached` was looked at; older ones are asked for with it as cursor."""

    events: list[Event]
    reached: int
    holes: list[Hole] = []

    @property
    def more(self) -> bool:
        """Whether there may be older ones."""
        return self.reached > 0


def newest(
    store: Store, *, until: int | None = None, selection: Selection = EVERYTHING, limit: int = PAGE_EVENTS
) -> EventList:
    """The newest `limit` events at or before a position, or as many as a bounded look finds."""
    end = store.head() if until is None else min(until, store.head())
    found = EventList([], end)
    window = limit
    ends = time.monotonic() + LOOK_SECONDS
    while found.reached > 0 and len(found.events) < limit:
        _look(store, found, selection, window, limit)
        window = min(window * 4, WINDOW_MAX)
        if end - found.reached >= LOOKED_MAX or time.monotonic() > ends:
            break
    return found


def _look(store: Store, found: EventList, selection: Selection, window: int, limit: int) -> None:
    """Look one window further back; if it holds more than is wanted, the cursor stays in it."""
    last, first = found.reached, max(0, found.reached - window)
    seen: list[Event] = []
    for page in store.pages(
        after=first, until=last, selection=selection, limit=last - first, over_holes=True, over_pruned=True
    ):
        seen += page.events
        found.holes += [hole for hole in page.holes if hole not in found.holes]
    taken = seen[::-1][: limit - len(found.events)]
    found.events += taken
    found.reached = taken[-1].position - 1 if len(taken) < len(seen) else first
