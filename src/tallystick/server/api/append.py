"""Appending: to one stream, or to several in one commit. A repeated request takes effect once.

The service writes into the meta what callers may not say of themselves. A request with an idempotency key is submitted
with its record, in the same group commit as everybody's appends. Of two requests with one key the engine accepts one;
the other is answered from the record, and so is a retry after any outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from tallystick import errors
from tallystick.event import ids, names
from tallystick.event.model import NewEvent
from tallystick.server.access import Need, Principal
from tallystick.server.api import conditions
from tallystick.server.api.conditions import ConditionBody
from tallystick.server.api.parameters import IDEMPOTENT, Hash, Seq, Tags
from tallystick.server.http import bodies, idempotency
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.service import Service
from tallystick.store import expectation, iterate, prepare
from tallystick.store.commit import Appended
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part

RESPONSE = b"{}"  # a retry is answered from the positions in the record
STAMPED_PER_ATTEMPT = frozenset({"request_id", "idempotency_key"})
NO_QUERY = "what is to be appended, and its expectation, are in the body"
REFUSALS = (401, 403, 404, 408, 409, 413, 415, 422, 429, 501, 503, 507)

routes = Routes("append")


# --- bodies: the store checks the values, so that every way in refuses the same ---------------------------------------


def _documented(**schema: Any) -> Meta:
    return Meta(extra_json_schema=schema)


Kind = Annotated[str, _documented(pattern=f"^{names.KIND.pattern}$")]
Name = Annotated[str, _documented(pattern=f"^{names.NAME.pattern}$")]


class EventBody(msgspec.Struct, forbid_unknown_fields=True):
    """An event to append."""

    type: Annotated[str, _documented(pattern=f"^{names.TYPE.pattern}$")]
    payload: dict[str, Any]
    version: Annotated[int, _documented(minimum=1, maximum=names.VERSION_MAX)] | None = None
    meta: dict[str, Any] | None = None
    id: Annotated[str, _documented(format="uuid")] | None = None
    time: Annotated[Seq | None, Meta(description="Nanoseconds since 1970. The default is now.")] = None
    tags: Tags | UnsetType = UNSET  # left out of the hash of a request if it is left out of the request


Events = Annotated[list[EventBody], _documented(minItems=1)]
Expected = Annotated[
    Seq | Literal["any", "none"] | None,
    Meta(description="Where the stream must be: a seq, `none` (it is new) or `any`."),
]


class StreamBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to append to the stream in the path."""

    events: Events
    expected: Expected = None
    unless: ConditionBody | None = None


class PartBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to append to one of several streams."""

    events: Events
    expected: Expected = None
    stream: Annotated[str, _documented(pattern=f"^{names.KIND.pattern}/{names.NAME.pattern}$")]


class PartsBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to append to several streams in one commit."""

    parts: Annotated[list[PartBody], _documented(minItems=1)]
    unless: ConditionBody | None = None


Shape = TypeVar("Shape", StreamBody, PartsBody)

Stored = Annotated[int, Meta(description="How many of the events were stored already, by their ids.")]
Pruned = Annotated[bool, Meta(description="They were pruned since, so only the seqs are known.")]


class AppendReceipt(msgspec.Struct, frozen=True):
    """Where the events that were appended to one stream are."""

    stream: str
    first_seq: Seq
    last_seq: Seq
    first_position: Seq | UnsetType = UNSET
    last_position: Seq | UnsetType = UNSET
    link: Hash | UnsetType = UNSET
    stored: Stored | UnsetType = UNSET
    pruned: Pruned | UnsetType = UNSET


class AppendReceipts(msgspec.Struct, frozen=True):
    """Where the events of all parts are."""

    parts: list[AppendReceipt]


# --- the routes ------------------------------------------------------------------------------------------------------


@routes.post(
    "/v1/streams/{kind}/{name}/events",
    Need.APPEND,
    Responses(AppendReceipt, REFUSALS, (201,)),
    body=StreamBody,
    headers=IDEMPOTENT,
    no_query=NO_QUERY,
)
async def append_to_stream(request: HttpRequest, kind: Kind, name: Name) -> Response:
    """Append events to a stream, all or none, and answer when they are on disk."""
    stream = f"{kind}/{name}"
    done = await _append(
        request, StreamBody, lambda body: [PartBody(stream=stream, events=body.events, expected=body.expected)]
    )
    return _answer(done, done.receipts[0])


@routes.post(
    "/v1/append",
    Need.APPEND,
    Responses(AppendReceipts, REFUSALS, (201,)),
    body=PartsBody,
    headers=IDEMPOTENT,
    no_query=NO_QUERY,
)
async def append_to_streams(request: HttpRequest) -> Response:
    """Append events to several streams in one commit, all or none, and answer when they are on disk."""
    done = await _append(request, PartsBody, lambda body: body.parts)
    return _answer(done, AppendReceipts(done.receipts))


async def _append(request: HttpRequest, shape: type[Shape], parts_of: Callable[[Shape], list[PartBody]]) -> Done:
    """Read a body of this shape, and append its parts. It takes room among the appends until they are on disk."""
    service, length = request.service, bodies.expect_json(request)
    with service.appends.enter() as admission:
        body, size = await bodies.read(request, admission, length, shape)
        began, parts = time.perf_counter(), parts_of(body)
        key, endpoint = idempotency.key_of(request), idempotency.endpoint_of(request)
        caller = Caller(request.principal, request.scope["tally.request_id"], endpoint, key)
        done = await _append_for(service, caller, parts, body.unless, is_large=size > bodies.INLINE_BYTES_MAX)
    if not done.repeated:
        events = sum(len(part.events) for part in parts)
        service.metrics.appended(events=events, size=size, seconds=time.perf_counter() - began)
    return done


def _answer(done: Done, receipt: AppendReceipt | AppendReceipts) -> Response:
    headers = idempotency.REPLAYED if done.repeated else None
    return Response(msgspec.json.encode(receipt), 201, headers, "application/json")


# --- appending for a caller ------------------------------------------------------------------------------------------


class Caller(msgspec.Struct, frozen=True):
    """Who appends, in which request, at which endpoint, and with which key if any."""

    principal: Principal
    request_id: str
    endpoint: str
    key: str | None = None

    @property
    def stamp(self) -> dict[str, str]:
        """The meta that the service writes."""
        who = self.principal
        stamp = {"actor_type": who.actor_type, "actor_id": who.actor, "request_id": self.request_id}
        if who.org is not None:
            stamp["org"] = who.org
        if self.key is not None:
            stamp["idempotency_key"] = self.key
        return stamp


class Done(msgspec.Struct, frozen=True):
    """The result of an append: a receipt for each part. `repeated`: it had taken effect before."""

    receipts: list[AppendReceipt]
    repeated: bool = False


async def _append_for(
    service: Service, caller: Caller, given: list[PartBody], unless: ConditionBody | None, *, is_large: bool = False
) -> Done:
    """Append for a caller, and wait until it is on disk. A large append is prepared in a thread."""
    if is_large:
        parts, record = await asyncio.to_thread(_ready, service, caller, given)
    else:
        parts, record = _ready(service, caller, given)
    try:
        asked = prepare.Request(parts, command=record)
        if unless is not None:
            asked.unless = await conditions.condition_of(service, caller.principal, unless)
        done = await _submitted(service, caller.principal, asked)
    except errors.TallyError as problem:
        if record is not None:
            repeated = await service.in_thread(_repeated, service, record)
            if repeated is not None:
                return Done(repeated, repeated=True)
        if caller.principal.org is not None:
            await service.in_thread(_hide_others, service, caller.principal, parts, problem)
        raise
    return Done([_receipt(item, stored=item.stored if record is None else UNSET) for item in done])


def _ready(service: Service, caller: Caller, given: list[PartBody]) -> tuple[list[Part], CommandRecord | None]:
    """What is submitted: the parts as the store takes them, and the record of the key if there is one."""
    stamp = caller.stamp
    parts = [_part(service, caller.principal, part, stamp) for part in given]
    return parts, None if caller.key is None else _record(service, caller, given)


async def _submitted(service: Service, principal: Principal, request: prepare.Request) -> list[Appended]:
    """Submit it. A caller bound to an org cannot see a stream without an org, and an append must not take it over."""
    if principal.org is None:
        return await service.log.submit(request)
    while True:
        new = await service.in_thread(_narrowed, service, principal, request.parts)
        try:
            return await service.log.submit(request)
        except errors.Conflict as conflict:
            if conflict.values["stream"] not in new:
                raise
        for part in new.values():  # another caller has just started the stream: look which org it has
            part.expected = expectation.ANY


def _narrowed(service: Service, principal: Principal, parts: list[Part]) -> dict[str, Part]:
    """Refuse streams of others, and expect that streams that do not exist are new."""
    new: dict[str, Part] = {}
    for part in parts:
        head = service.store.stream_head(part.stream)
        if head is not None and service.visibility.hides(principal, part.stream, head.org):
            _nothing()
        if head is None and part.expected == expectation.ANY and part.stream not in new:
            part.expected = expectation.NO_STREAM
            new[part.stream] = part
    return new


def _part(service: Service, principal: Principal, given: PartBody, stamp: dict[str, str]) -> Part:
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
            tags=() if event.tags is UNSET else event.tags,
        )
        for event in given.events
    ]
    return Part(given.stream, events, _expected(given.expected), STAMPED_PER_ATTEMPT)


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


def _record(service: Service, caller: Caller, given: list[PartBody]) -> CommandRecord:
    assert caller.key is not None
    key = CommandKey(_org_of(caller.principal, given), caller.principal.actor, caller.endpoint, caller.key)
    return CommandRecord(key, idempotency.hash_of(given), RESPONSE, service.store.clock())


def _org_of(principal: Principal, given: list[PartBody]) -> str:
    """The org of the data: the caller's, or the one that all events name. It is empty if they name several or none."""
    if principal.org is not None:
        return principal.org
    named = [event.meta.get("org") if event.meta else None for part in given for event in part.events]
    same = set(named) if all(isinstance(org, str) for org in named) else set()
    return str(same.pop()) if len(same) == 1 else ""


def _repeated(service: Service, record: CommandRecord) -> list[AppendReceipt] | None:
    """The receipts of the same request; None if it never took effect. A different request is refused."""
    stored = service.store.log.commands.load(record.key)
    if stored is None:
        return None
    idempotency.require_same(stored, record.key, record.request_hash)
    if len(stored.places) != len(stored.ranges):  # recorded by a version that did not keep them
        return [_read_back(service, *part) for part in stored.ranges]
    return [_receipt(Appended(*range_, *place)) for range_, place in zip(stored.ranges, stored.places, strict=True)]


def _read_back(service: Service, stream: str, first: int, last: int) -> AppendReceipt:
    try:
        begin, end = (iterate.at(service.store.log, stream, seq) for seq in (first, last))
    except errors.HistoryPruned:
        begin = end = None
    if begin is None or end is None:
        return AppendReceipt(stream, first, last, pruned=True)
    return _receipt(Appended(stream, first, last, begin.position, end.position, end.link))


def _receipt(done: Appended, *, stored: int | UnsetType = UNSET) -> AppendReceipt:
    return AppendReceipt(
        done.stream,
        done.first_seq,
        done.last_seq,
        done.first_position,
        done.last_position,
        done.link.hex(),
        stored=stored,
    )


def _hide_others(service: Service, principal: Principal, parts: list[Part], problem: errors.TallyError) -> None:
    """Raise another error if this one would reveal streams or events of others."""
    if isinstance(problem, errors.DuplicateId) and service.visibility.find(principal, problem.values["id"]) is None:
        raise errors.IdUnusable(id=problem.values["id"]) from None
    if isinstance(problem, errors.ConditionFailed):
        conditions.hide_others(problem)
    if isinstance(problem, errors.Refused):
        for part in parts:
            head = service.store.stream_head(part.stream)
            if head is not None and service.visibility.hides(principal, part.stream, head.org):
                _nothing()


def _nothing() -> NoReturn:
    raise errors.NothingHere() from None
