"""The loops over the pages of the port, each written once: whole logs, streams and listings; and single events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tallystick.event.model import Event
from tallystick.store.events import PAGE_EVENTS, EventLog
from tallystick.store.maintenance import Cut
from tallystick.store.page import Page, StreamInfo
from tallystick.store.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from tallystick.store.ledger import Head

WINDOW_MAX = 16_384  # positions that are read backward at once: a page at first, and more while nothing is found


def pages(
    log: EventLog,
    *,
    after: int = 0,
    until: int | None = None,
    selection: Selection = EVERYTHING,
    limit: int = PAGE_EVENTS,
    over_holes: bool = False,
    over_pruned: bool = False,
    unchecked: bool = False,
) -> Iterator[Page]:
    """Pages in order of position, up to `until` or to the head at the time of the call. Some may hold no event."""
    head = log.head()
    end = head if until is None else min(until, head)
    while after < end:
        page = log.read(
            after=after,
            until=end,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
            unchecked=unchecked,
        )
        yield page
        if page.through <= after:
            return
        after = page.through


def pages_backward(
    log: EventLog,
    *,
    after: int = 0,
    until: int | None = None,
    selection: Selection = EVERYTHING,
    limit: int = PAGE_EVENTS,
    over_holes: bool = False,
    over_pruned: bool = False,
) -> Iterator[list[Event]]:
    """The selected events from `until`, or from the head, down to `after`: lists of them, the newest event first.

    What was pruned is refused when it is reached, as a read forward would refuse it.
    """
    head, floor = log.head(), log.floor()
    end = head if until is None else min(until, head)
    window = limit
    while end > after:
        first = max(end - window, after)
        if first < floor < end:
            first = floor  # what lies above the floor is given before the floor is refused
        found: list[Event] = []
        for page in pages(
            log,
            after=first,
            until=end,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
        ):
            found += page.events
        yield found[::-1]
        end = first
        window = limit if found else min(window * 4, max(WINDOW_MAX, limit))


def stream_pages(
    log: EventLog, stream: str, *, after: int = 0, until: int | None = None, limit: int = PAGE_EVENTS
) -> Iterator[list[Event]]:
    """The events of one stream with after < seq <= until, in lists of at most `limit`; none of them is empty."""
    is_full = True
    while is_full and (page := log.read_stream(stream, after=after, until=until, limit=limit)):
        yield page
        after, is_full = page[-1].seq, len(page) == limit


def stream_pages_backward(
    log: EventLog, stream: str, *, after: int = 0, until: int | None = None, limit: int = PAGE_EVENTS
) -> Iterator[list[Event]]:
    """The events of one stream from `until`, or from its end, down to `after`: lists, the newest event first."""
    head, cut = log.stream_head(stream), log.cut(stream)
    if head is None:
        return
    floor = cut.through if cut is not None else 0
    end = head.seq if until is None else min(until, head.seq)
    while end > after:
        first = max(end - limit, after)
        if first < floor < end:
            first = floor
        yield log.read_stream(stream, after=first, until=end, limit=limit)[::-1]
        end = first


def stream(
    log: EventLog, name: str, *, after: int = 0, until: int | None = None, backward: bool = False
) -> Iterator[Event]:
    """Every event of one stream with after < seq <= until."""
    walk = stream_pages_backward if backward else stream_pages
    for page in walk(log, name, after=after, until=until):
        yield from page


def streams(log: EventLog, *, after: str = "", prefix: str = "") -> Iterator[StreamInfo]:
    """Every stream after `after`, in order of name; with `prefix` only those whose names begin with it."""
    after = max(after, prefix)  # no stream has such a prefix as its whole name
    is_full = True
    while is_full and (page := log.streams(after=after, limit=PAGE_EVENTS)):
        for info in page:
            if not info.stream.startswith(prefix):
                return
            yield info
        after, is_full = page[-1].stream, len(page) == PAGE_EVENTS


def cuts(log: EventLog) -> Iterator[Cut]:
    """What was pruned of every stream, in order of name."""
    after, is_full = "", True
    while is_full and (page := log.cuts(after=after, limit=PAGE_EVENTS)):
        yield from page
        after, is_full = page[-1].stream, len(page) == PAGE_EVENTS


def event_at(log: EventLog, position: int, *, over_holes: bool = False) -> Event | None:
    """The event at a position; None if there is none, or if it was pruned."""
    if position < 1:
        return None
    page = log.read(after=position - 1, until=position, limit=1, over_holes=over_holes, over_pruned=True)
    return page.events[0] if page.events else None


def at(log: EventLog, stream: str, seq: int) -> Event | None:
    """The event of a stream at a seq; None if the stream does not reach it. A pruned one is refused by name."""
    if seq < 1:
        return None
    found = log.read_stream(stream, after=seq - 1, until=seq, limit=1)
    return found[0] if found else None


def last(log: EventLog, stream: str) -> Event | None:
    """The newest event of a stream; None if the stream does not exist. A pruned one is refused by name."""
    head: Head | None = log.stream_head(stream)
    return at(log, stream, head.seq) if head is not None else None
