"""Appending: to one stream, or to several in one commit. A repeated request takes effect once.

The service writes into the meta what callers may not say of themselves. A request with an idempotency key is submitted
with its record, in the same group commit as everybody's appends. Of two requests with one key the engine accepts one;
the other is answered from the record, and so is a retry after any outcome.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal, NoReturn

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick import errors
from tallystick.event import ids
from tallystick.event.model import NewEvent
from tallystick.server.access import Appender, Principal
from tallystick.server.api import shapes
from tallystick.server.api.parameters import Kind, Name, service_of
from tallystick.server.http import bodies, idempotency
from tallystick.server.service import Service
from tallystick.store import expectation, iterate, prepare
from tallystick.store.commit import Appended
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part

router = APIRouter(tags=["append"])

RESPONSE = b"{}"  # what a retry is told is put together from the places in the record
STAMPED_ANEW = frozenset({"request_id", "idempotency_key"})


@router.post(
    "/v1/streams/{kind}/{name}/events",
    status_code=201,
    openapi_extra=shapes.body(shapes.STREAM_BODY) | shapes.IDEMPOTENT,
    responses=shapes.answers(201, shapes.APPENDED, 401, 403, 404, 408, 409, 413, 415, 422, 429, 501, 503, 507),
)
async def append_to_stream(kind: Kind, name: Name, request: Request, who: Appender) -> Response:
    """Append events to a stream, all or none, and answer when they are on disk."""
    service = service_of(request)
    length = bodies.expect_json(request)
    with service.appends.enter() as entry:
        body = await bodies.read(service, request, entry, length)
        given = await bodies.decode(body, StreamIn, entry)
        part = PartIn(stream=f"{kind}/{name}", events=given.events, expected=given.expected)
        done = await _appended(service, request, who, [part], len(body))
    return _answer(done, done.parts[0])


@router.post(
    "/v1/append",
    status_code=201,
    openapi_extra=shapes.body(shapes.PARTS_BODY) | shapes.IDEMPOTENT,
    responses=shapes.answers(201, shapes.ALL_APPENDED, 401, 403, 404, 408, 409, 413, 415, 422, 429, 501, 503, 507),
)
async def append_to_streams(request: Request, who: Appender) -> Response:
    """Append events to several streams in one commit, all or none, and answer when they are on disk."""
    service = service_of(request)
    length = bodies.expect_json(request)
    with service.appends.enter() as entry:
        body = await bodies.read(service, request, entry, length)
        parts = (await bodies.decode(body, PartsIn, entry)).parts
        done = await _appended(service, request, who, parts, len(body))
    return _answer(done, {"parts": done.parts})


async def _appended(service: Service, request: Request, who: Principal, parts: list[PartIn], size: int) -> Done:
    began = time.perf_counter()
    key, endpoint = idempotency.key_of(request), idempotency.endpoint_of(request)
    caller = Caller(who, request.scope["tally.request_id"], endpoint, key)
    done = await _append(service, caller, parts, is_large=size > bodies.INLINE_BYTES_MAX)
    if not done.repeated:
        events = sum(len(part.events) for part in parts)
        service.meter.appended(events=events, size=size, seconds=time.perf_counter() - began)
    return done


def _answer(done: Done, told: Any) -> Response:
    headers = idempotency.REPLAYED if done.repeated else None
    return Response(msgspec.json.encode(told), 201, headers, "application/json")


class EventIn(msgspec.Struct, forbid_unknown_fields=True):
    """An event in a body."""

    type: str
    payload: dict[str, Any]
    version: int | None = None
    meta: dict[str, Any] | None = None
    id: str | None = None
    time: int | None = None


class StreamIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is appended to the stream of the path."""

    events: list[EventIn]
    expected: int | Literal["any", "none"] | None = None


class PartIn(StreamIn, forbid_unknown_fields=True, kw_only=True):
    """What is appended to one of several streams."""

    stream: str


class PartsIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is appended to several streams in one commit."""

    parts: list[PartIn]


class Caller(msgspec.Struct, frozen=True):
    """Who appends, in which request, at which endpoint, and under which key if they gave one."""

    principal: Principal
    request_id: str
    endpoint: str
    key: str | None = None

    @property
    def stamp(self) -> dict[str, str]:
        """The meta that the service answers for."""
        who = self.principal
        stamp = {"actor_type": who.actor_type, "actor_id": who.actor, "request_id": self.request_id}
        if who.org is not None:
            stamp["org"] = who.org
        if self.key is not None:
            stamp["idempotency_key"] = self.key
        return stamp


class Done(msgspec.Struct, frozen=True):
    """What became of an append: where each part is. `repeated`: it had taken effect before."""

    parts: list[dict[str, Any]]
    repeated: bool = False


async def _append(service: Service, caller: Caller, given: list[PartIn], *, is_large: bool = False) -> Done:
    """Append for a caller, and wait until it is on disk. What is large is made ready beside the event loop."""
    if is_large:
        parts, record = await asyncio.to_thread(_ready, service, caller, given)
    else:
        parts, record = _ready(service, caller, given)
    try:
        done = await _submitted(service, caller.principal, prepare.Request(parts, command=record))
    except errors.TallyError as problem:
        if record is not None:
            repeated = await service.in_thread(_repeated, service, record)
            if repeated is not None:
                return Done(repeated, repeated=True)
        if caller.principal.org is not None:
            await service.in_thread(_tell_nothing, service, caller.principal, parts, problem)
        raise
    return Done([_told(item) | ({"stored": item.stored} if record is None else {}) for item in done])


def _ready(service: Service, caller: Caller, given: list[PartIn]) -> tuple[list[Part], CommandRecord | None]:
    """What is handed in: the parts as the store takes them, and the record of the key if there is one."""
    stamp = caller.stamp
    parts = [_part(service, caller.principal, part, stamp) for part in given]
    return parts, None if caller.key is None else _record(service, caller, given)


async def _submitted(service: Service, principal: Principal, request: prepare.Request) -> list[Appended]:
    """Hand it in. To whom is bound to an org a stream that has none is not there: appending must not make it theirs."""
    if principal.org is None:
        return await service.log.submit(request)
    while True:
        new = await service.in_thread(_narrowed, service, principal, request.parts)
        try:
            return await service.log.submit(request)
        except errors.Conflict as conflict:
            if conflict.values["stream"] not in new:
                raise
        for part in new.values():  # somebody else has begun the stream meanwhile: look whose it is
            part.expected = expectation.ANY


def _narrowed(service: Service, principal: Principal, parts: list[Part]) -> dict[str, Part]:
    """Refuse streams that are not theirs, and expect of those that are not there that they are new."""
    new: dict[str, Part] = {}
    for part in parts:
        head = service.store.stream_head(part.stream)
        if head is not None and service.visibility.hides(principal, part.stream, head.org):
            _nothing()
        if head is None and part.expected == expectation.ANY and part.stream not in new:
            part.expected = expectation.NO_STREAM
            new[part.stream] = part
    return new


def _part(service: Service, principal: Principal, given: PartIn, stamp: dict[str, str]) -> Part:
    if principal.org is not None and service.visibility.is_infrastructure(given.stream):
        raise errors.NothingHere()
    events = [
        NewEvent(
            event.type,
            event.payload,
            meta=stamp if event.meta is None else _stamped(event.meta, stamp),
            version=event.version,
            id=None if event.id is None else ids.to_bytes(event.id),
            time=event.time,
        )
        for event in given.events
    ]
    return Part(given.stream, events, _expected(given.expected), STAMPED_ANEW)


def _stamped(meta: dict[str, Any], stamp: dict[str, str]) -> dict[str, Any]:
    for key in stamp.keys() & meta.keys():
        if meta[key] != stamp[key]:
            raise errors.StampRefused(key=key)
    if "idempotency_key" in meta and "idempotency_key" not in stamp:
        raise errors.StampRefused(key="idempotency_key")
    return meta | stamp


def _expected(given: int | str | None) -> expectation.Expected:
    if given is None:
        return expectation.ANY
    if isinstance(given, str):
        return expectation.from_text(given)
    if given < 0:
        raise errors.InvalidValue(what="expected", value=given, must="a seq (0, 1, 2 …), 'none' or 'any'")
    return expectation.check(given)


def _record(service: Service, caller: Caller, given: list[PartIn]) -> CommandRecord:
    assert caller.key is not None
    key = CommandKey(_org_of(caller.principal, given), caller.principal.actor, caller.endpoint, caller.key)
    return CommandRecord(key, idempotency.hash_of(given), RESPONSE, service.store.clock())


def _org_of(principal: Principal, given: list[PartIn]) -> str:
    """The org of the data: the caller's, else the one that all events name; several, or none, are no org's."""
    if principal.org is not None:
        return principal.org
    named = [event.meta.get("org") if event.meta else None for part in given for event in part.events]
    same = set(named) if all(isinstance(org, str) for org in named) else set()
    return str(same.pop()) if len(same) == 1 else ""


def _repeated(service: Service, record: CommandRecord) -> list[dict[str, Any]] | None:
    """What the same request was told before; None if it never took effect. Another request is refused."""
    stored = service.store.log.commands.load(record.key)
    if stored is None:
        return None
    idempotency.require_same(stored, record.key, record.request_hash)
    if len(stored.places) != len(stored.ranges):  # recorded by a version that did not keep them
        return [_read_back(service, *part) for part in stored.ranges]
    return [_told(Appended(*range_, *place)) for range_, place in zip(stored.ranges, stored.places, strict=True)]


def _read_back(service: Service, stream: str, first: int, last: int) -> dict[str, Any]:
    try:
        begin, end = (iterate.at(service.store.log, stream, seq) for seq in (first, last))
    except errors.HistoryPruned:
        begin = end = None
    if begin is None or end is None:
        return {"stream": stream, "first_seq": first, "last_seq": last, "pruned": True}
    return _told(Appended(stream, first, last, begin.position, end.position, end.link))


def _told(done: Appended) -> dict[str, Any]:
    return {
        "stream": done.stream,
        "first_seq": done.first_seq,
        "last_seq": done.last_seq,
        "first_position": done.first_position,
        "last_position": done.last_position,
        "link": done.link.hex(),
    }


def _tell_nothing(service: Service, principal: Principal, parts: list[Part], problem: errors.TallyError) -> None:
    """A refusal must not tell of streams and events of others."""
    if isinstance(problem, errors.DuplicateId) and service.visibility.find(principal, problem.values["id"]) is None:
        raise errors.IdUnusable(id=problem.values["id"]) from None
    if isinstance(problem, errors.Refused):
        for part in parts:
            head = service.store.stream_head(part.stream)
            if head is not None and service.visibility.hides(principal, part.stream, head.org):
                _nothing()


def _nothing() -> NoReturn:
    raise errors.NothingHere() from None
