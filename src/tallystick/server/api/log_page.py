"""Pages of the log for a caller: within their scope, and bounded in events and in bytes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallystick import errors
from tallystick.event import limits
from tallystick.event.model import Event
from tallystick.server.access import Principal
from tallystick.server.api.parameters import Hash, Seq
from tallystick.server.service import Service
from tallystick.store import capabilities
from tallystick.store.page import Hole, Page
from tallystick.store.selection import Selection

STEP_EVENTS = 16  # the first step of a page, before the size of the events is known
STEP_GROWTH = 8
LOOKED_MAX = 200_000  # positions that a filter scans for one page
EVENT_BYTES = 600  # what the fields other than payload and meta take in a page, approximately


class EventQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the log is wanted."""

    after: int | str = 0  # a position, or a cursor
    until: int | None = None
    limit: int = 1000
    selection: Selection = Selection()
    over_holes: bool = False
    over_pruned: bool = False


class EventOut(msgspec.Struct):
    """An event, as `event.line` writes it."""

    position: Seq
    stream: str
    seq: Seq
    type: str
    version: int
    id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
    time: int
    payload: dict[str, Any] | None
    meta: dict[str, Any]
    checksum: Hash
    link: Hash
    signature: str | UnsetType | None = UNSET


Cursor = Annotated[str, Meta(description="Continue with `after` set to this. It is valid for this history only.")]


class EventPage(msgspec.Struct):
    """A page of events. Its bytes are put together from the lines of the events."""

    events: list[EventOut]
    through: Annotated[Seq, Meta(description="How far was scanned: continue after this.")]
    cursor: Cursor | UnsetType = UNSET
    holes: list[dict[str, Any]] | UnsetType = UNSET


def read_page(
    service: Service, principal: Principal, query: EventQuery, *, bytes_max: int
) -> tuple[list[Event], int, list[Hole]]:
    """A page of about this size: the events, how far the log was scanned, and the ranges that were skipped."""
    begin = service.store.after(query.after, over_holes=query.over_holes)
    selection = service.visibility.scoped(principal, query.selection)
    until = _bounded(service, selection, begin, query.until)
    found: list[Event] = []
    holes: list[Hole] = []
    after, room, step = begin, bytes_max, min(STEP_EVENTS, query.limit)
    while True:
        try:
            some = _page_for(
                service,
                principal,
                after=after,
                until=until,
                selection=selection,
                limit=step,
                over_holes=query.over_holes,
                over_pruned=query.over_pruned,
            )
        except (errors.Damaged, errors.HistoryPruned):
            if after == begin:
                raise
            return found, after, holes  # the next page starts there, and reports it
        seen = visible(service, principal, some.events)
        found += seen
        holes += some.holes
        room -= sum(map(size_of, seen))
        left = query.limit - len(found)
        if some.through <= after or left <= 0 or room <= 0 or _is_end(service, some.through, until):
            return found, max(some.through, after), holes
        after = some.through
        step = min(left, step * STEP_GROWTH, fitting(bytes_max, room, len(found)))


def _bounded(service: Service, selection: Selection, after: int, until: int | None) -> int | None:
    """How far to scan for one page: a filter that nothing passes must not read the whole log in one request."""
    if selection.is_everything or capabilities.GLOBAL_ORDER not in service.store.log.capabilities:
        return until
    return min(limits.INT_MAX if until is None else until, after + LOOKED_MAX)


def _page_for(service: Service, principal: Principal, *, selection: Selection, **filters: Any) -> Page:
    """A page for a principal. That something was pruned of another org's stream is not reported."""
    try:
        return service.store.read(selection=selection, **filters)
    except errors.HistoryPruned:
        own = frozenset(name for name in selection.streams if service.visibility.may_name(principal, name))
        if own == selection.streams:
            raise
    if own:
        return service.store.read(selection=msgspec.structs.replace(selection, streams=own), **filters)
    return service.store.read(selection=selection, **filters | {"over_pruned": True})  # nothing will pass the filter


def fitting(whole: int, room: int, count: int) -> int:
    """How many more events fit, if they are as large as those before: a page of large events is read in steps."""
    return max(room * count // (whole - room), 1) if count else STEP_EVENTS * STEP_GROWTH


def _is_end(service: Service, through: int, until: int | None) -> bool:
    return (until is not None and through >= until) or through >= service.store.head()


def visible(service: Service, principal: Principal, found: list[Event]) -> list[Event]:
    """The events that are not of the infrastructure, given those of the principal's org."""
    if principal.org is None:
        return found
    return [event for event in found if not service.visibility.is_infrastructure(event.stream)]


def size_of(event: Event) -> int:
    """How many bytes an event takes in a page, approximately."""
    return EVENT_BYTES + len(event.payload or b"") + len(event.meta)


def cursor_at(service: Service, query: EventQuery, found: list[Event], through: int) -> str:
    """The cursor to continue after, with evidence of this history."""
    if found and found[-1].position == through:
        return service.store.cursor(found[-1])
    if isinstance(query.after, str) and "." in query.after and query.after.startswith(f"{through}."):
        return query.after
    return service.store.cursor(through)
