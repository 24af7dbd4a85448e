"""Streams: a list of them, one of them, its events and its state; and the state of the whole store."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from tallystick import errors, state
from tallystick.event import limits, names
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.server.access import Need, Principal
from tallystick.server.api.log_page import STEP_EVENTS, STEP_GROWTH, EventPage, fitting, size_of
from tallystick.server.api.parameters import LIMIT, Hash, Kind, Label, Limit, Name, Position, Seq
from tallystick.server.http.page_response import PageResponse
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.merge import merge
from tallystick.server.service import Service
from tallystick.state import Reducer
from tallystick.store import iterate

STREAMS_SCANNED_MAX = 20_000

routes = Routes("streams")


# --- streams ---------------------------------------------------------------------------------------------------------


class StreamOut(msgspec.Struct):
    """A stream: where it ends, and the org that it belongs to."""

    stream: str
    seq: Seq
    org: str | None
    link: Hash
    pruned_through: Seq | UnsetType = UNSET


class StreamPage(msgspec.Struct):
    """A page of streams."""

    streams: list[StreamOut]
    next: Annotated[str | None, Meta(description="Continue after this. It is null at the end.")]


@routes.get("/v1/streams", Need.READ, Responses(StreamPage, (401, 403, 404, 422, 429, 501, 503)))
async def list_streams(
    request: HttpRequest,
    after: Annotated[str, Meta(max_length=names.LABEL_MAX)] = "",
    limit: Limit = LIMIT,
    kind: Label | None = None,
    org: Label | None = None,
) -> Response:
    """The streams by name. A page may be short: continue with `after` set to `next` until `next` is null."""
    if kind is not None:
        names.check_kind(kind)
    wanted: dict[str, Any] = {"after": after, "limit": limit, "kind": kind, "org": org}
    return await PageResponse.of(request.service, _streams, request.principal, **wanted)


@routes.get("/v1/streams/{kind}/{name}", Need.READ, Responses(StreamOut, (401, 403, 404, 422, 429, 501, 503)))
async def read_stream(request: HttpRequest, kind: Kind, name: Name) -> Response:
    """Where a stream ends, the org that it belongs to, the link of its last event, and what was pruned of it."""
    return await PageResponse.of(request.service, _stream, request.principal, f"{kind}/{name}")


@routes.get(
    "/v1/streams/{kind}/{name}/events", Need.READ, Responses(EventPage, (401, 403, 404, 410, 422, 429, 501, 503))
)
async def read_stream_events(
    request: HttpRequest,
    kind: Kind,
    name: Name,
    after: Position = 0,
    until: Position | None = None,
    limit: Limit = LIMIT,
) -> Response:
    """A page of the events of a stream after the seq `after`. Continue with `after` set to `through`."""
    wanted: dict[str, Any] = {"after": after, "until": until, "limit": limit}
    return await PageResponse.of(request.service, _stream_events, request.principal, f"{kind}/{name}", **wanted)


def _streams(
    service: Service, principal: Principal, *, after: str, limit: int, kind: str | None, org: str | None
) -> bytes:
    """A page of the streams as JSON; `next` is where to continue, null at the end."""
    if principal.org is not None and org not in (None, principal.org):
        raise errors.NothingHere()
    after = service.bookmarks.place(after)
    found, last, scanned = [], after, 0
    some = iterate.streams(service.store.log, after=after, prefix="" if kind is None else f"{kind}/")
    for info in islice(some, STREAMS_SCANNED_MAX):
        last, scanned = info.stream, scanned + 1
        if not service.visibility.hides(principal, info.stream, info.org) and org in (None, info.org):
            found.append(StreamOut(info.stream, info.seq, info.org, info.link.hex()))
            if len(found) == limit:
                break
    following = last if len(found) == limit else None
    if following is None and scanned == STREAMS_SCANNED_MAX:
        following = last if principal.org is None else service.bookmarks.keep(last)  # it may belong to another org
    return msgspec.json.encode(StreamPage(found, following))


def _stream(service: Service, principal: Principal, name: str) -> bytes:
    head = service.visibility.require(principal, name)
    cut = service.store.cut(name)
    pruned_through = 0 if cut is None else cut.through
    return msgspec.json.encode(StreamOut(name, head.seq, head.org, head.link.hex(), pruned_through))


def _stream_events(
    service: Service, principal: Principal, name: str, *, after: int, until: int | None, limit: int
) -> bytes:
    """A page of one stream as JSON; `through` is the seq to continue after."""
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


# --- states ----------------------------------------------------------------------------------------------------------


class StateOut(msgspec.Struct):
    """A state, and from what it was folded."""

    stream: str
    seq: Seq
    position: Seq
    link: Hash
    reducer: str
    reducer_version: int
    state: msgspec.Raw
    state_hash: Hash
    events_folded: int
    snapshot: str | None
    degraded: bool
    damage: str


STATE = Responses(StateOut, (401, 403, 404, 409, 410, 422, 429, 501, 503))
Reduced = Annotated[str, Meta(max_length=200)]
Time = Annotated[int, Meta(ge=0, le=limits.INT_MAX, description="Nanoseconds since 1970.")]
Degraded = Annotated[
    bool, Meta(description="If the log is damaged, return the state before the damage; `degraded` is then true.")
]


@routes.get("/v1/streams/{kind}/{name}/state", Need.READ, STATE)
async def read_state(
    request: HttpRequest,
    kind: Kind,
    name: Name,
    reducer: Reduced = merge.name,
    seq: Position | None = None,
    time: Time | None = None,
    degraded: Degraded = False,
) -> Response:
    """The state of a stream at its end, at a seq or at a time. `merge` overlays the payloads of its events."""
    if seq is not None and time is not None:
        raise errors.InvalidInput(reason="give a seq or a time, not both")
    wanted: dict[str, Any] = {"reducer": reducer, "until": state.Until(seq=seq, time=time), "degraded": degraded}
    return await PageResponse.of(request.service, _stream_state, request.principal, f"{kind}/{name}", **wanted)


@routes.get("/v1/state", Need.READ, STATE)
async def read_store_state(
    request: HttpRequest,
    reducer: Reduced,
    position: Position | None = None,
    time: Time | None = None,
    degraded: Degraded = False,
) -> Response:
    """The state of the whole store, by a reducer of scope `store`, at its end, at a position or at a time."""
    if position is not None and time is not None:
        raise errors.InvalidInput(reason="give a position or a time, not both")
    until = state.Until(position=position, time=time)
    wanted: dict[str, Any] = {"reducer": reducer, "until": until, "degraded": degraded}
    return await PageResponse.of(request.service, _store_state, request.principal, **wanted)


def _stream_state(
    service: Service, principal: Principal, name: str, *, reducer: str, until: state.Until, degraded: bool
) -> bytes:
    try:
        service.visibility.require(principal, name)
    except errors.Damaged:  # its end is unknown; a tenant is refused, because the lost events may belong to another org
        if not degraded or principal.org is not None:
            raise
    chosen = service.reducers.get(reducer)
    if chosen is None or chosen.scope != "stream":
        raise errors.NothingHere()
    service.visibility.require_every_event(principal, name)
    return _state(service, chosen, name, until=until, degraded=degraded and principal.org is None)


def _store_state(service: Service, principal: Principal, *, reducer: str, until: state.Until, degraded: bool) -> bytes:
    """The state of the whole store. A caller bound to an org gets none: it contains the events of every org."""
    chosen = service.reducers.get(reducer)
    if principal.org is not None or chosen is None or chosen.scope != "store":
        raise errors.NothingHere()
    return _state(service, chosen, "", until=until, degraded=degraded)


def _state(service: Service, chosen: Reducer, name: str, *, until: state.Until, degraded: bool) -> bytes:
    found = state.fold(service.store, chosen, name, until=until, degraded=degraded)
    return msgspec.json.encode(
        StateOut(
            stream=name,
            seq=found.seq,
            position=found.position,
            link=found.link.hex(),
            reducer=chosen.name,
            reducer_version=chosen.version,
            state=msgspec.Raw(found.body),
            state_hash=found.hash.hex(),
            events_folded=found.events,
            snapshot=found.snapshot.hex() if found.snapshot is not None else None,
            degraded=bool(found.damage),
            damage=found.damage,
        )
    )
