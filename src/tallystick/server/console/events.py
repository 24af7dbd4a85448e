"""The events page: the newest first, by cursor; and the page of one event.

Nothing is counted, and a rare filter scans the log backwards in bounded steps.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors
from tallystick.event import canonical, chain, ids, tags
from tallystick.event.model import Event
from tallystick.server.console import causes, display, event_filter, render, route
from tallystick.server.http.route import HttpRequest
from tallystick.store import facts, iterate
from tallystick.store.page import Hole
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.store import Store

PAGE_EVENTS = 50
WINDOW_MAX = 10_000
SCANNED_MAX = 400_000
SCAN_SECONDS = 0.5
META_CHARACTERS_MAX = 2_000

pages = route.pages()
data = route.data()


@pages.get("/events")
def show_events(request: HttpRequest, before: int | None = None) -> Response:
    """The newest events that pass a filter."""
    store: Store = request.service.store
    asked = event_filter.read(dict(request.query_params))
    if asked.problem:
        found = EventList([], 0)
    else:
        until = None if before is None else max(0, before)
        found = newest(store, until=until, selection=asked.selection)
    return render.page(
        request,
        "events.html",
        here="/events",
        title="Events",
        status=422 if asked.problem else 200,
        fields=event_filter.FIELDS,
        asked=asked.typed,
        filtered=asked.filtered,
        query=asked.query,
        problem=asked.problem,
        wrong=asked.wrong,
        events=found.events,
        holes=found.holes,
        reached=found.reached,
        more=found.more,
        before=before,
        newest=store.head(),
        live="no" if before is not None or asked.problem else "yes",
    )


class EventList(msgspec.Struct):
    """Events, newest first. Everything after `reached` was scanned; it is the cursor for older events."""

    events: list[Event]
    reached: int
    holes: list[Hole] = []

    @property
    def more(self) -> bool:
        """Whether there may be older events."""
        return self.reached > 0


def newest(
    store: Store, *, until: int | None = None, selection: Selection = EVERYTHING, limit: int = PAGE_EVENTS
) -> EventList:
    """The newest `limit` events at or before a position, or as many as a bounded scan finds."""
    end = store.head() if until is None else min(until, store.head())
    found = EventList([], end)
    window = limit
    ends = time.monotonic() + SCAN_SECONDS
    while found.reached > 0 and len(found.events) < limit:
        _scan(store, found, selection, window, limit)
        window = min(window * 4, WINDOW_MAX)
        if end - found.reached >= SCANNED_MAX or time.monotonic() > ends:
            break
    return found


def _scan(store: Store, found: EventList, selection: Selection, window: int, limit: int) -> None:
    """Scan one window further back. If it has more events than are wanted, the cursor stays in it."""
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


# --- one event -------------------------------------------------------------------------------------------------------


def _event(store: Store, id_: str) -> Event:
    """The event with this id; `NothingHere` if there is none, or this is not an id."""
    try:
        found = store.find(id_)
    except errors.InvalidInput:
        found = None
    if found is None:
        raise errors.NothingHere()
    return found


@pages.get("/events/{id_}")
def show_event(request: HttpRequest, id_: str) -> Response:
    """One event: payload, causes and consequences, envelope, hashes."""
    store: Store = request.service.store
    event = _event(store, id_)
    graph = causes.find_causes(store, event)
    payload, left = display.pretty(event.payload) if event.payload is not None else (None, 0)
    return render.page(
        request,
        "event.html",
        here="/events",
        title=event.type,
        event=event,
        id=ids.to_text(event.id),
        payload=payload,
        left=left,
        bytes=len(event.payload or b""),
        about=facts.stream_about(event.stream) if not event.stream.startswith("tally.") else event.stream,
        graph=causes.drawing(graph, render.event_href),
        reach=causes.REACH,
        meta=_meta(event),
        previous=_neighbour(store, event, -1),
        following=_neighbour(store, event, 1),
        **_hashes(store, event),
    )


def _meta(event: Event) -> list[tuple[str, str]]:
    """The meta, one line per key. Tags are links of their own."""
    found = []
    for key, value in sorted(event.metadata.items()):
        if key == tags.KEY and event.tags:
            continue
        text = value if isinstance(value, str) else canonical.encode_state(value).decode()
        found.append((key, display.cut(text, META_CHARACTERS_MAX)[0]))
    return found


def _neighbour(store: Store, event: Event, by: int) -> str | None:
    found = _in_stream(store, event, by)
    return render.event_href(found) if found is not None else None


def _in_stream(store: Store, event: Event, by: int) -> Event | None:
    try:
        return iterate.at(store.log, event.stream, event.seq + by)
    except (errors.Damaged, errors.HistoryPruned):
        return None


def _hashes(store: Store, event: Event) -> dict[str, Any]:
    """Checksum and link, computed again."""
    holds = event.payload is None or chain.checksum(event.payload) == event.checksum
    says = "erased, so it cannot be compared" if event.payload is None else "holds" if holds else "does not hold"
    before = _in_stream(store, event, -1)
    cut = store.cut(event.stream)
    at_cut = cut.link if cut is not None and cut.through == event.seq - 1 else None
    previous = chain.GENESIS if event.seq == 1 else before.link if before is not None else at_cut
    if previous is None:
        link = ("warn", "the event before it cannot be read, so it cannot be compared")
    elif chain.link(event, previous) == event.link:
        link = ("ok", "holds")
    else:
        link = ("bad", "does not hold")
    return {"checksum_holds": holds, "checksum_says": says, "link_tone": link[0], "link_says": link[1]}


@pages.get("/events/{id_}/payload")
def download_payload(request: HttpRequest, id_: str) -> Response:
    """The payload as a download. The browser must not display it, whatever it is."""
    event = _event(request.service.store, id_)
    if event.payload is None:
        raise errors.NothingHere()
    disposition = {"content-disposition": f'attachment; filename="{event.id.hex()}.json"'}
    return Response(event.payload, 200, render.HEADERS | disposition, "application/octet-stream")


@data.get("/events/{id_}/causes")
def look_further(request: HttpRequest, id_: str, reach: int = causes.REACH) -> Response:
    """Causes and consequences, with a longer scan."""
    store: Store = request.service.store
    graph = causes.find_causes(store, _event(store, id_), reach=reach)
    return render.data(causes.drawing(graph, render.event_href))
