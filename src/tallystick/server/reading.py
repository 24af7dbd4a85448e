"""Reading for somebody: their scope is laid over what they ask for, and pages are bounded in events and in bytes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from tallystick import errors, state
from tallystick.event import limits
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.server.access import Principal
from tallystick.server.service import Service
from tallystick.state import Reducer
from tallystick.store import capabilities, control, iterate
from tallystick.store.page import Hole, Page
from tallystick.store.selection import Selection

STEP_EVENTS = 16  # the first step of a page, before it is known how large the events are
STEP_GROWTH = 8
STREAMS_SCANNED_MAX = 20_000
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


def events(service: Service, principal: Principal, asked: Asked) -> bytes:
    """A page of the log as JSON: the events, how far the log was looked at, and which damaged ranges were passed."""
    found, through, holes = page(service, principal, asked, bytes_max=service.limits.page_bytes_max)
    cursor = cursor_at(service, asked, found, through)
    told = ",".join(f'{{"first":{hole.first},"last":{hole.last}}}' for hole in holes)
    return (
        f'{{"events":[{",".join(map(line, found))}],"through":{through},"cursor":"{cursor}","holes":[{told}]}}'.encode()
    )


def cursor_at(service: Service, asked: Asked, found: list[Event], through: int) -> str:
    """The place to go on after, with evidence of this history."""
    if found and found[-1].position == through:
        return service.store.cursor(found[-1])
    if isinstance(asked.after, str) and "." in asked.after and asked.after.startswith(f"{through}."):
        return asked.after
    return service.store.cursor(through)


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
        step = min(left, step * STEP_GROWTH, _fitting(bytes_max, room, len(found)))


def _fitting(whole: int, room: int, count: int) -> int:
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


def event(service: Service, principal: Principal, id: str) -> bytes:
    """One event as JSON."""
    found = service.visibility.find(principal, id)
    if found is None:
        raise errors.NothingHere()
    return line(found).encode()


def stream(service: Service, principal: Principal, name: str) -> bytes:
    """A stream as JSON: how long it is, whose, and what was pruned of it."""
    head = service.visibility.require(principal, name)
    cut = service.store.cut(name)
    told = {
        "stream": name,
        "seq": head.seq,
        "org": head.org,
        "link": head.link.hex(),
        "pruned_through": 0 if cut is None else cut.through,
    }
    return msgspec.json.encode(told)


def stream_events(
    service: Service, principal: Principal, name: str, *, after: int, until: int | None, limit: int
) -> bytes:
    """A page of one stream as JSON; `through` is the seq to go on after."""
    service.visibility.require(principal, name)
    found: list[Event] = []
    room, step = service.limits.page_bytes_max, min(STEP_EVENTS, limit)
    while True:
        page = service.store.read_stream(name, after=after, until=until, limit=step)
        found += page if principal.org is None else [each for each in page if service.visibility.shows(principal, each)]
        room -= sum(map(size_of, page))
        after = page[-1].seq if page else after
        if len(page) < step or len(found) >= limit or room <= 0:
            return f'{{"events":[{",".join(map(line, found))}],"through":{after}}}'.encode()
        step = min(limit - len(found), step * STEP_GROWTH, _fitting(service.limits.page_bytes_max, room, len(found)))


def streams(
    service: Service, principal: Principal, *, after: str, limit: int, kind: str | None, org: str | None
) -> bytes:
    """A page of the streams as JSON; `next` is what to go on after, null at the end."""
    if principal.org is not None and org not in (None, principal.org):
        raise errors.NothingHere()
    after = service.bookmarks.place(after)
    found, last, scanned = [], after, 0
    some = iterate.streams(service.store.log, after=after, prefix="" if kind is None else f"{kind}/")
    for info in islice(some, STREAMS_SCANNED_MAX):
        last, scanned = info.stream, scanned + 1
        if not service.visibility.hides(principal, info.stream, info.org) and org in (None, info.org):
            found.append({"stream": info.stream, "seq": info.seq, "org": info.org, "link": info.link.hex()})
            if len(found) == limit:
                break
    following = last if len(found) == limit else None
    if following is None and scanned == STREAMS_SCANNED_MAX:
        following = last if principal.org is None else service.bookmarks.keep(last)  # it may be another's
    return msgspec.json.encode({"streams": found, "next": following})


def state_of(
    service: Service, principal: Principal, name: str, *, reducer: str, until: state.Until, degraded: bool
) -> bytes:
    """The state of a stream as JSON, at a seq or a time."""
    try:
        service.visibility.require(principal, name)
    except errors.Damaged:  # nobody knows where it ends; a tenant is refused, since what is lost may be another's
        if not degraded or principal.org is not None:
            raise
    chosen = service.reducers.get(reducer)
    if chosen is None or chosen.scope != "stream":
        raise errors.NothingHere()
    service.visibility.require_every_event(principal, name)
    return _state(service, chosen, name, until=until, degraded=degraded and principal.org is None)


def state_of_store(
    service: Service, principal: Principal, *, reducer: str, until: state.Until, degraded: bool
) -> bytes:
    """The state of the whole store as JSON, at a position or a time. A tenant has none: it is of everybody."""
    chosen = service.reducers.get(reducer)
    if principal.org is not None or chosen is None or chosen.scope != "store":
        raise errors.NothingHere()
    return _state(service, chosen, "", until=until, degraded=degraded)


def _state(service: Service, chosen: Reducer, name: str, *, until: state.Until, degraded: bool) -> bytes:
    found = state.fold(service.store, chosen, name, until=until, degraded=degraded)
    told = {
        "stream": name,
        "seq": found.seq,
        "position": found.position,
        "link": found.link.hex(),
        "reducer": chosen.name,
        "reducer_version": chosen.version,
        "state": msgspec.Raw(found.body),
        "state_hash": found.hash.hex(),
        "events_folded": found.events,
        "snapshot": found.snapshot.hex() if found.snapshot is not None else None,
        "degraded": bool(found.damage),
        "damage": found.damage,
    }
    return msgspec.json.encode(told)


def audit(service: Service, asked: Asked, *, actor: str | None) -> bytes:
    """A page of the control facts as JSON: what was done to the store, by whom."""
    after = service.store.after(asked.after)
    facts = control.audit(service.store.log, after=after, selection=asked.selection)
    wanted = (fact for fact in facts if actor is None or fact.metadata.get("actor_id") == actor)
    found = list(islice(wanted, asked.limit))
    through = max(found[-1].position if len(found) == asked.limit else service.store.head(), after)
    cursor = cursor_at(service, asked, found, through)
    return f'{{"events":[{",".join(map(line, found))}],"through":{through},"cursor":"{cursor}"}}'.encode()


def store(service: Service, principal: Principal) -> bytes:
    """What is served, as JSON: which engine, how far, whether it can be written, and what is damaged."""
    log = service.store.log
    told: dict[str, Any] = {
        "engine": log.engine,
        "profile": log.profile,
        "store": log.store_id.hex(),
        "head": service.store.head(),
        "floor": service.store.floor(),
        "readonly": service.is_readonly,
        "capabilities": sorted(log.capabilities),
        "reducers": sorted(service.reducers),
        "projections": sorted(service.projections),
    }
    if principal.org is None:
        told["holes"] = [
            {"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()
        ]
    return msgspec.json.encode(told)
