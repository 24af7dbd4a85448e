"""Streams: which there are, one of them, its events and its state; and the state of the whole store."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tallystick import errors, state
from tallystick.event import limits, names
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.server.access import Principal, Reader
from tallystick.server.api import shapes
from tallystick.server.api.log_page import STEP_EVENTS, STEP_GROWTH, fitting, size_of
from tallystick.server.api.parameters import LIMIT, Kind, Label, Limit, MaybePosition, Name, Position, service_of
from tallystick.server.http.page_response import Page
from tallystick.server.merge import merge
from tallystick.server.service import Service
from tallystick.state import Reducer
from tallystick.store import iterate

router = APIRouter(tags=["streams"])

STREAMS_SCANNED_MAX = 20_000


@router.get("/v1/streams", responses=shapes.answers(200, shapes.STREAMS, 401, 403, 404, 422, 429, 501, 503))
async def list_streams(
    request: Request,
    who: Reader,
    after: Annotated[str, Query(max_length=names.LABEL_MAX)] = "",
    limit: Limit = LIMIT,
    kind: Label = None,
    org: Label = None,
) -> Response:
    """The streams in order of name. A page may be short: go on with `after` set to `next` until that is null."""
    if kind is not None:
        names.check_kind(kind)
    service = service_of(request)
    return await Page.of(service, _streams, who, after=after, limit=limit, kind=kind, org=org)


@router.get(
    "/v1/streams/{kind}/{name}", responses=shapes.answers(200, shapes.STREAM, 401, 403, 404, 422, 429, 501, 503)
)
async def read_stream(kind: Kind, name: Name, request: Request, who: Reader) -> Response:
    """How long a stream is, whose it is, the link of its last event, and what was pruned of it."""
    return await Page.of(service_of(request), _stream, who, f"{kind}/{name}")


@router.get(
    "/v1/streams/{kind}/{name}/events",
    responses=shapes.answers(200, shapes.EVENTS, 401, 403, 404, 410, 422, 429, 501, 503),
)
async def read_stream_events(
    kind: Kind,
    name: Name,
    request: Request,
    who: Reader,
    after: Position = 0,
    until: MaybePosition = None,
    limit: Limit = LIMIT,
) -> Response:
    """A page of the events of a stream behind the seq `after`. Go on with `after` set to `through`."""
    service, stream = service_of(request), f"{kind}/{name}"
    return await Page.of(service, _stream_events, who, stream, after=after, until=until, limit=limit)


ANSWERS = shapes.answers(200, shapes.STATE, 401, 403, 404, 409, 410, 422, 429, 501, 503)
Time = Annotated[int | None, Query(ge=0, le=limits.INT_MAX, description="Nanoseconds since 1970.")]
Degraded = Annotated[
    bool, Query(description="Of a damaged log, the state in front of the damage; `degraded` says if that is so.")
]


@router.get("/v1/streams/{kind}/{name}/state", responses=ANSWERS)
async def read_state(
    kind: Kind,
    name: Name,
    request: Request,
    who: Reader,
    reducer: Annotated[str, Query(max_length=200)] = merge.name,
    seq: MaybePosition = None,
    time: Time = None,
    degraded: Degraded = False,
) -> Response:
    """What a stream adds up to, at its end, a seq or a time. `merge` lays its payloads over each other."""
    if seq is not None and time is not None:
        raise errors.InvalidInput(reason="give a seq or a time, not both")
    service, stream, until = service_of(request), f"{kind}/{name}", state.Until(seq=seq, time=time)
    return await Page.of(service, _stream_state, who, stream, reducer=reducer, until=until, degraded=degraded)


@router.get("/v1/state", responses=ANSWERS)
async def read_store_state(
    request: Request,
    who: Reader,
    reducer: Annotated[str, Query(max_length=200)],
    position: MaybePosition = None,
    time: Time = None,
    degraded: Degraded = False,
) -> Response:
    """What the whole store adds up to by a reducer of scope "store", at its end, a position or a time."""
    if position is not None and time is not None:
        raise errors.InvalidInput(reason="give a position or a time, not both")
    service, until = service_of(request), state.Until(position=position, time=time)
    return await Page.of(service, _store_state, who, reducer=reducer, until=until, degraded=degraded)


def _streams(
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


def _stream(service: Service, principal: Principal, name: str) -> bytes:
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


def _stream_events(
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
        step = min(limit - len(found), step * STEP_GROWTH, fitting(service.limits.page_bytes_max, room, len(found)))


def _stream_state(
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


def _store_state(service: Service, principal: Principal, *, reducer: str, until: state.Until, degraded: bool) -> bytes:
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
