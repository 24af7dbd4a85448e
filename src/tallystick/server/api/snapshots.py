"""Snapshots: make, list, protect, verify."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tallystick.server import snapshotting
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.http.idempotency import once

router = APIRouter(tags=["snapshots"])

PAGE = 100

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
        return answer(await service.run(snapshotting.of_all, service, after=after, limit=limit))
    return answer(await service.run(snapshotting.of_stream, service, stream, after=after, limit=limit))


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
    return await begin(request, who, asked, snapshotting.begin_snapshot, asked.stream, **wanted)


@router.post("/v1/snapshots/verify", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers())
async def verify_snapshots(request: Request, who: Admin) -> Response:
    """Check every snapshot and fingerprint against a replay of the log."""
    return await begin(request, who, None, snapshotting.begin_check)


@router.get("/v1/snapshots/{id}", responses=read_answers())
async def read_snapshot(id: str, request: Request, who: Admin) -> Response:
    """One snapshot, checked: `problem` is null, or says what is wrong with it."""
    service = service_of(request)
    return answer(await service.run(snapshotting.one, service, id))


@router.post(
    "/v1/snapshots/{id}/protect",
    openapi_extra=shapes.body(_PROTECTING) | shapes.IDEMPOTENT,
    responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 404, 409, 422, 429, 501, 503, 507, *BODY_REFUSALS),
)
async def protect_snapshot(id: str, request: Request, who: Admin) -> Response:
    """Keep a snapshot from retention, or lift that."""
    service, asked = service_of(request), await order(request, Protecting)

    async def act(_: Any) -> Response:
        return answer(await service.run(snapshotting.protect, service, id, protected=asked.protected))

    return await once(request, who, asked, act)
