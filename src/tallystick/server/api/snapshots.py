"""Snapshots and retention: make, list, protect and check snapshots; apply the retention policy, or try it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tallystick import errors, state
from tallystick.event import names
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.http.idempotency import once
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service
from tallystick.state import shelf, validation
from tallystick.state.retention import retain
from tallystick.state.shelf import Entry
from tallystick.store import facts, iterate

router = APIRouter(tags=["snapshots"])

PAGE = 100

STREAMS_SCANNED_MAX = 2_000
ID_BYTES = 16
BEFORE_STREAMS = "!"  # sorts before every stream, behind the store itself

Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str, Query(max_length=300)]


class Making(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be snapshotted: a stream or (without one) the store; by one reducer or by all."""

    stream: str = ""
    reducer: str | None = None
    protect: bool = False


class Protecting(msgspec.Struct, forbid_unknown_fields=True):
    """Whether retention must leave it alone."""

    protected: bool = True


_MAKING = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "stream": {"type": "string"},
        "reducer": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "protect": {"type": "boolean"},
    },
}
_PROTECTING = {"type": "object", "additionalProperties": False, "properties": {"protected": {"type": "boolean"}}}


@router.get("/v1/snapshots", responses=read_answers())
async def list_snapshots(
    request: Request,
    who: Admin,
    stream: Annotated[str | None, Query(max_length=300, description="Of this stream; empty: of the store.")] = None,
    after: Cursor = "",
    limit: Limit = PAGE,
) -> Response:
    """The snapshots of a stream, the newest first; without a stream, those of every stream in order of name."""
    service = service_of(request)
    if stream is None:
        return answer(await service.run(_of_all, service, after=after, limit=limit))
    return answer(await service.run(_of_stream, service, stream, after=after, limit=limit))


@router.post(
    "/v1/snapshots",
    status_code=202,
    openapi_extra=shapes.body(_MAKING) | shapes.IDEMPOTENT,
    responses=job_answers(*BODY_REFUSALS),
)
async def make_snapshot(request: Request, who: Admin) -> Response:
    """Snapshot a stream with the reducers that fold it; without a stream, the whole store at one position."""
    asked = await order(request, Making)
    wanted = {"reducer": asked.reducer, "protected": asked.protect}
    return await begin(request, who, asked, _begin_snapshot, asked.stream, **wanted)


@router.post("/v1/snapshots/verify", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers())
async def verify_snapshots(request: Request, who: Admin) -> Response:
    """Check every snapshot and fingerprint against a replay of the log."""
    return await begin(request, who, None, _begin_check)


@router.get("/v1/snapshots/{id}", responses=read_answers())
async def read_snapshot(id: str, request: Request, who: Admin) -> Response:
    """One snapshot, checked: `problem` is null, or says what is wrong with it."""
    service = service_of(request)
    return answer(await service.run(_snapshot, service, id))


@router.post(
    "/v1/snapshots/{id}/protect",
    openapi_extra=shapes.body(_PROTECTING) | shapes.IDEMPOTENT,
    responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 404, 409, 422, 429, 501, 503, 507, *BODY_REFUSALS),
)
async def protect_snapshot(id: str, request: Request, who: Admin) -> Response:
    """Keep a snapshot from retention, or lift that."""
    service, asked = service_of(request), await order(request, Protecting)

    async def act(_: Any) -> Response:
        return answer(await service.run(_protect, service, id, protected=asked.protected))

    return await once(request, who, asked, act)


retention = APIRouter(tags=["operations"])


class Retaining(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it is only to be said what would be done."""

    dry_run: bool = True


_RETAINING = {"type": "object", "additionalProperties": False, "properties": {"dry_run": {"type": "boolean"}}}


@retention.get("/v1/retention", responses=read_answers())
async def read_retention(request: Request, who: Admin) -> Response:
    """The policy in force, and the last dry run."""
    service = service_of(request)
    return answer(await service.run(_policy, service))


@retention.post(
    "/v1/retention",
    status_code=202,
    openapi_extra=shapes.body(_RETAINING) | shapes.IDEMPOTENT,
    responses=job_answers(*BODY_REFUSALS),
)
async def begin_retention(request: Request, who: Admin) -> Response:
    """Say what the policy would let go and why not (`dry_run`, which is the default), or do it."""
    asked = await order(request, Retaining)
    return await begin(request, who, asked, _begin_retention, dry_run=asked.dry_run)


def _of_stream(service: Service, stream: str, *, after: str, limit: int) -> dict[str, Any]:
    """The snapshots of a stream (empty: of the store), the newest first; `next` is what to go on after."""
    if stream:
        names.stream_kind(stream)
    entries = shelf.entries(service.store, stream)
    if after:
        for entry in entries:
            if entry.id.hex() == after:
                break
    found = list(islice(entries, limit + 1))
    more = found[limit - 1].id.hex() if len(found) > limit else None
    return {"snapshots": [_as_json(entry) for entry in found[:limit]], "next": more}


def _of_all(service: Service, *, after: str, limit: int) -> dict[str, Any]:
    """The newest snapshots of every stream in order of name, the store's own first; `next` is a stream."""
    found: list[Entry] = []
    for scanned, stream in enumerate(_subjects(service, after), 1):
        found += islice(shelf.entries(service.store, stream), limit)
        if len(found) >= limit or scanned >= STREAMS_SCANNED_MAX:
            return {"snapshots": [_as_json(entry) for entry in found], "next": stream or BEFORE_STREAMS}
    return {"snapshots": [_as_json(entry) for entry in found], "next": None}


def _subjects(service: Service, after: str) -> Iterator[str]:
    if not after:
        yield ""
    every = iterate.streams(service.store.log, after=after)
    yield from (info.stream for info in every if not names.is_reserved(info.stream))


def _as_json(entry: Entry) -> dict[str, Any]:
    """A snapshot as JSON."""
    fact = entry.fact
    return {
        "id": entry.id.hex(),
        "stream": fact.stream,
        "seq": fact.seq,
        "position": fact.position,
        "reducer": fact.reducer,
        "reducer_version": fact.reducer_version,
        "kind": fact.kind,
        "bytes": fact.body_bytes,
        "made": entry.made,
        "protected": entry.protected,
    }


def _snapshot(service: Service, id: str) -> dict[str, Any]:
    """One snapshot, checked against the log: `problem` says what is wrong with it."""
    entry = _entry(service, id)
    return _as_json(entry) | {"problem": validation.why_unusable(service.store, entry)}


def _protect(service: Service, id: str, *, protected: bool) -> dict[str, Any]:
    """Keep a snapshot from retention, or lift that."""
    entry = _entry(service, id)
    state.protect(service.store, entry.fact.stream, entry.id, protected=protected)
    return _as_json(_entry(service, id))


def _entry(service: Service, id: str) -> Entry:
    try:
        wanted = bytes.fromhex(id)
    except ValueError:
        raise errors.NothingHere() from None
    event = service.store.log.find(wanted) if len(wanted) == ID_BYTES else None
    if event is None or event.type != facts.SNAPSHOTTED:
        raise errors.NothingHere()
    stream = facts.parse(event, facts.Snapshotted).stream
    for entry in shelf.entries(service.store, stream):
        if entry.id == wanted:
            return entry
    raise errors.NothingHere()  # it was dropped


def _begin_snapshot(service: Service, stream: str, *, reducer: str | None, protected: bool, by: str) -> Job:
    """Snapshot a stream with one reducer or with each that folds it; with no stream, the whole store."""
    chosen = [service.reducers[reducer]] if reducer in service.reducers else list(service.own_reducers)
    if reducer is not None and reducer not in service.reducers:
        raise errors.NothingHere()
    if not stream:
        return service.operations.jobs.begin("snapshot", lambda progress: _whole(service, protected), by=by)
    if service.store.stream_head(stream) is None:
        raise errors.NothingHere()
    folding = [item for item in chosen if item.scope == "stream" and item.wants(stream)]
    if not folding:
        raise errors.InvalidValue(what="reducer", value=reducer, must="one that folds this stream")

    def work(progress: Progress) -> dict[str, Any]:
        made = [state.make(service.store, item, stream, protect=protected) for item in folding]
        return {"snapshots": [_as_json(entry) for entry in made if entry is not None]}

    subject = f"{stream} {reducer or ''}".strip()
    return service.operations.jobs.begin("snapshot", work, subject=subject, total=len(folding), by=by)


def _whole(service: Service, protected: bool) -> dict[str, Any]:
    made = state.make_all(service.store, service.own_reducers, protect=protected)
    return {"set": made.hex()}


def _begin_check(service: Service, *, by: str) -> Job:
    """Check every snapshot and fingerprint against the log, by every reducer that is registered."""

    def work(progress: Progress) -> dict[str, Any]:
        found = validation.problems(service.store, service.own_reducers, progress=progress)
        problems = [msgspec.to_builtins(problem) for problem in islice(found, 1000)]
        return {"ok": not problems, "problems": problems}

    return service.operations.jobs.begin("check snapshots", work, by=by)


def _policy(service: Service) -> dict[str, Any]:
    """The policy in force, and the last look at what it would do."""
    last = service.operations.jobs.last("retention dry run")
    return {
        "policy": msgspec.to_builtins(service.operations.policy),
        "dry_run": msgspec.to_builtins(last) if last is not None else None,
    }


def _begin_retention(service: Service, *, dry_run: bool, by: str) -> Job:
    """Say what the policy would do and why not, or do it."""

    def work(progress: Progress) -> dict[str, Any]:
        deeds, reclaimed = retain(
            service.store,
            service.own_reducers,
            service.operations.policy,
            dry_run=dry_run,
            archive=service.archive(),
            progress=progress,
        )
        return {"dry_run": dry_run, "deeds": msgspec.to_builtins(deeds), "reclaimed": msgspec.to_builtins(reclaimed)}

    return service.operations.jobs.begin("retention dry run" if dry_run else "retention", work, by=by)
