"""Snapshots and retention: make, list, protect and check snapshots; apply the retention policy, or try it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors, state
from tallystick.event import names
from tallystick.server.access import Need
from tallystick.server.api.parameters import IDEMPOTENT
from tallystick.server.api.reply import CHANGED, JOB, JOB_FROM_BODY, READ, begin, change, reply
from tallystick.server.http import bodies
from tallystick.server.http.route import HttpRequest, Routes
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service
from tallystick.state import shelf, validation
from tallystick.state.retention import retain
from tallystick.state.shelf import SnapshotEntry
from tallystick.store import facts, iterate

PAGE = 100

STREAMS_SCANNED_MAX = 2_000
ID_BYTES = 16
BEFORE_STREAMS = "!"  # sorts before every stream and after the store itself

Limit = Annotated[int, Meta(ge=1, le=1000)]
Cursor = Annotated[str, Meta(max_length=300)]
OfStream = Annotated[str, Meta(max_length=300, description="Only those of this stream. Empty: those of the store.")]

routes = Routes("snapshots")
retention_routes = Routes("operations")


# --- the routes ------------------------------------------------------------------------------------------------------


class SnapshotBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to snapshot: a stream, or the store if no stream is named; with one reducer, or with all."""

    stream: str = ""
    reducer: str | None = None
    protect: bool = False


class ProtectionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Whether retention must keep the snapshot."""

    protected: bool = True


class RetentionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Whether only to report what would be done."""

    dry_run: bool = True


@routes.get("/v1/snapshots", Need.ADMIN, READ)
async def list_snapshots(
    request: HttpRequest, stream: OfStream | None = None, after: Cursor = "", limit: Limit = PAGE
) -> Response:
    """The snapshots of a stream, newest first; without `stream`, those of every stream, by name."""
    service = request.service
    if stream is None:
        return reply(await service.run(_of_all, service, after=after, limit=limit))
    return reply(await service.run(_of_stream, service, stream, after=after, limit=limit))


@routes.post("/v1/snapshots", Need.ADMIN, JOB_FROM_BODY, body=SnapshotBody, headers=IDEMPOTENT)
async def make_snapshot(request: HttpRequest) -> Response:
    """Snapshot a stream with the reducers that fold it; without a stream, the whole store at one position."""
    body = await bodies.read_small(request, SnapshotBody)
    return await begin(request, body, _begin_snapshot, body.stream, reducer=body.reducer, protected=body.protect)


@routes.post("/v1/snapshots/verify", Need.ADMIN, JOB, headers=IDEMPOTENT)
async def verify_snapshots(request: HttpRequest) -> Response:
    """Check every snapshot and fingerprint against a replay of the log."""
    return await begin(request, None, _begin_check)


@routes.get("/v1/snapshots/{id}", Need.ADMIN, READ)
async def read_snapshot(request: HttpRequest, id: str) -> Response:
    """One snapshot, checked: `problem` is null, or says what is wrong with it."""
    return reply(await request.service.run(_snapshot, request.service, id))


@routes.post("/v1/snapshots/{id}/protect", Need.ADMIN, CHANGED, body=ProtectionBody, headers=IDEMPOTENT)
async def protect_snapshot(request: HttpRequest, id: str) -> Response:
    """Protect a snapshot from retention, or stop protecting it."""
    service, body = request.service, await bodies.read_small(request, ProtectionBody)
    return await change(request, body, lambda: service.run(_protect, service, id, protected=body.protected))


@retention_routes.get("/v1/retention", Need.ADMIN, READ)
async def read_retention(request: HttpRequest) -> Response:
    """The policy in force, and the last dry run."""
    return reply(await request.service.run(_policy, request.service))


@retention_routes.post("/v1/retention", Need.ADMIN, JOB_FROM_BODY, body=RetentionBody, headers=IDEMPOTENT)
async def begin_retention(request: HttpRequest) -> Response:
    """Report what the policy would remove, and why it keeps the rest (`dry_run`, the default); or do it."""
    body = await bodies.read_small(request, RetentionBody)
    return await begin(request, body, _begin_retention, dry_run=body.dry_run)


# --- snapshots -------------------------------------------------------------------------------------------------------


def _of_stream(service: Service, stream: str, *, after: str, limit: int) -> dict[str, Any]:
    """The snapshots of a stream (empty: of the store), newest first; `next` is where to continue."""
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
    """The newest snapshots of every stream by name, those of the store first; `next` is a stream."""
    found: list[SnapshotEntry] = []
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


def _as_json(entry: SnapshotEntry) -> dict[str, Any]:
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
    entry = _entry(service, id)
    return _as_json(entry) | {"problem": validation.why_unusable(service.store, entry)}


def _protect(service: Service, id: str, *, protected: bool) -> dict[str, Any]:
    """Protect a snapshot from retention, or stop protecting it."""
    entry = _entry(service, id)
    state.protect(service.store, entry.fact.stream, entry.id, protected=protected)
    return _as_json(_entry(service, id))


def _entry(service: Service, id: str) -> SnapshotEntry:
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
    """Snapshot a stream with one reducer, or with every reducer that folds it; without a stream, the whole store."""
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
    def work(progress: Progress) -> dict[str, Any]:
        found = validation.problems(service.store, service.own_reducers, progress=progress)
        problems = [msgspec.to_builtins(problem) for problem in islice(found, 1000)]
        return {"ok": not problems, "problems": problems}

    return service.operations.jobs.begin("check snapshots", work, by=by)


def _policy(service: Service) -> dict[str, Any]:
    last = service.operations.jobs.last("retention dry run")
    return {
        "policy": msgspec.to_builtins(service.operations.policy),
        "dry_run": msgspec.to_builtins(last) if last is not None else None,
    }


def _begin_retention(service: Service, *, dry_run: bool, by: str) -> Job:
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
