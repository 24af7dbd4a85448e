"""Pages of the log for a caller: within their scope, and bounded in events and in bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import limits
from tallystick.event.model import Event
from tallystick.server.access import Principal
from tallystick.server.service import Service
from tallystick.store import capabilities
from tallystick.store.page import Hole, Page
from tallystick.store.selection import Selection

STEP_EVENTS = 16  # the first step of a page, before it is known how large the events are
STEP_GROWTH = 8
LOOKED_MAX = 200_000  # positions that a filter looks at for one page
EVENT_BYTES = 600  # what the fields beside payload and meta take in a page, about


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the log is asked for."""

    after: int | str = 0  # a position, or a cursor
    until: int | None = None
    limit: int = 1000
    selection: Selection = Selection()
    over_holes: bool = False
    over_pruned: bool = False


def page(
    service: Service, principal: Principal, asked: Asked, *, bytes_max: int
) -> tuple[list[Event], int, list[Hole]]:
    """A page of the log, about so many bytes of it: the events, how far the log was looked at, what was passed over."""
    begin = service.store.after(asked.after, over_holes=asked.over_holes)
    selection = service.visibility.scoped(principal, asked.selection)
    until = bounded(service, selection, begin, asked.until)
    found: list[Event] = []
    holes: list[Hole] = []
    after, room, step = begin, bytes_max, min(STEP_EVENTS, asked.limit)
    while True:
        try:
            some = page_for(
                service,
                principal,
                after=after,
                until=until,
                selection=selection,
                limit=step,
                over_holes=asked.over_holes,
                over_pruned=asked.over_pruned,
            )
        except (errors.Damaged, errors.HistoryPruned):
            if after == begin:
                raise
            return found, after, holes  # the next page begins there, and says it
        seen = visible(service, principal, some.events)
        found += seen
        holes += some.holes
        room -= sum(map(size_of, seen))
        left = asked.limit - len(found)
        if some.through <= after or left <= 0 or room <= 0 or _is_end(service, some.through, until):
            return found, max(some.through, after), holes
        after = some.through
        step = min(left, step * STEP_GROWTH, fitting(bytes_max, room, len(found)))


def bounded(service: Service, selection: Selection, after: int, until: int | None) -> int | None:
    """How far to look for one page: a filter that lets nothing through must not read the whole log in one request."""
    if selection.is_everything or capabilities.GLOBAL_ORDER not in service.store.log.capabilities:
        return until
    return min(limits.INT_MAX if until is None else until, after + LOOKED_MAX)


def page_for(service: Service, principal: Principal, *, selection: Selection, **filters: Any) -> Page:
    """A page for a principal. That something was pruned of another org's stream is not reported."""
    try:
        return service.store.read(selection=selection, **filters)
    except errors.HistoryPruned:
        own = frozenset(name for name in selection.streams if service.visibility.may_name(principal, name))
        if own == selection.streams:
            raise
    if own:
        return service.store.read(selection=msgspec.structs.replace(selection, streams=own), **filters)
    return service.store.read(selection=selection, **filters | {"over_pruned": True})  # their org lets nothing through


def fitting(whole: int, room: int, count: int) -> int:
    """How many more events fit if they are like those before: a page of large events must not be read at once."""
    return max(room * count // (whole - room), 1) if count else STEP_EVENTS * STEP_GROWTH


def _is_end(service: Service, through: int, until: int | None) -> bool:
    return (until is not None and through >= until) or through >= service.store.head()


def visible(service: Service, principal: Principal, found: list[Event]) -> list[Event]:
    """Those of the events, all of the principal's org, that are not of the infrastructure."""
    if principal.org is None:
        return found
    return [event for event in found if not service.visibility.is_infrastructure(event.stream)]


def size_of(event: Event) -> int:
    """How many bytes an event takes in a page, about."""
    return EVENT_BYTES + len(event.payload or b"") + len(event.meta)


def cursor_at(service: Service, asked: Asked, found: list[Event], through: int) -> str:
    """The place to go on after, with evidence of this history."""
    if found and found[-1].position == through:
        return service.store.cursor(found[-1])
    if isinstance(asked.after, str) and "." in asked.after and asked.after.startswith(f"{through}."):
        return asked.after
    return service.store.cursor(through)
