"""Projections and consumers: how far each one is, waiting for one, rebuilding, dropping and resetting."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tallystick import errors, projections
from tallystick.event import names
from tallystick.projections import Lag, ViewReader, gauges
from tallystick.projections.lag import lag_at
from tallystick.projections.retire import ProjectionDropped
from tallystick.server.access import Admin, Reader
from tallystick.server.api import shapes
from tallystick.server.api.order import ADMIN_REFUSALS, BODY_REFUSALS, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import Position, service_of
from tallystick.server.http.idempotency import Record, once
from tallystick.server.rebuild import begin_rebuild
from tallystick.server.sample import has_order
from tallystick.server.service import Service
from tallystick.store.tables import live_places
from tallystick.store.views import Place

router = APIRouter(tags=["projections"])

POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.25
TIMEOUT_SECONDS = 5.0


class Dropping(msgspec.Struct, forbid_unknown_fields=True):
    """Why."""

    reason: str = ""


class DroppingConsumer(msgspec.Struct, forbid_unknown_fields=True):
    """Which consumer, and whether its dead letters go with it."""

    name: str
    letters: bool = False
    reason: str = ""


class Resetting(msgspec.Struct, forbid_unknown_fields=True):
    """Which consumer, and behind which position it goes on."""

    name: str
    position: int
    reason: str = ""


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


_TEXT = {"type": "string"}
_DROPPING = _object([], reason=_TEXT)
_DROPPING_CONSUMER = _object(["name"], name=_TEXT, letters={"type": "boolean"}, reason=_TEXT)
_RESETTING = _object(["name", "position"], name=_TEXT, position={"type": "integer", "minimum": 0}, reason=_TEXT)
_DONE = shapes.answers(200, shapes.ANY_OBJECT, *ADMIN_REFUSALS, 507, *BODY_REFUSALS)


@router.get("/v1/projections", responses=read_answers())
async def list_projections(request: Request, who: Admin) -> Response:
    """Every projection and consumer with its lag, in events and in seconds."""
    service = service_of(request)
    found = await service.run(_projections, service)
    return answer({"projections": found, "consumers": await service.run(_consumers, service)})


@router.get("/v1/consumers", responses=read_answers())
async def list_consumers(request: Request, who: Admin) -> Response:
    """Every consumer that keeps a place here, with its lag and the number of its dead letters."""
    service = service_of(request)
    return answer({"consumers": await service.run(_consumers, service)})


@router.post(
    "/v1/projections/{name}/rebuild", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers()
)
async def rebuild_projection(name: str, request: Request, who: Admin) -> Response:
    """Make the rows of a projection anew, beside the live ones, which stay readable until the new have caught up."""
    return await begin(request, who, None, begin_rebuild, name)


@router.post("/v1/projections/{name}/drop", openapi_extra=shapes.body(_DROPPING) | shapes.IDEMPOTENT, responses=_DONE)
async def drop_projection(name: str, request: Request, who: Admin) -> Response:
    """Drop the rows or tables of a projection that this service does not run; a control fact records it."""
    service, asked = service_of(request), await order(request, Dropping)

    async def act(_: Record | None) -> Response:
        done = await service.in_thread(_drop, service, name, by=who.actor, reason=asked.reason)
        return answer(msgspec.to_builtins(done))

    return await once(request, who, asked, act)


@router.post("/v1/consumers/drop", openapi_extra=shapes.body(_DROPPING_CONSUMER) | shapes.IDEMPOTENT, responses=_DONE)
async def drop_consumer(request: Request, who: Admin) -> Response:
    """Drop the place of a consumer, and with `letters` its dead letters; a control fact records it."""
    service, asked = service_of(request), await order(request, DroppingConsumer)
    given = msgspec.structs.asdict(asked)

    async def act(_: Record | None) -> Response:
        done = await service.in_thread(projections.drop_consumer, service.store, **given, by=who.actor)
        return answer(msgspec.to_builtins(done))

    return await once(request, who, asked, act)


@router.post("/v1/consumers/reset", openapi_extra=shapes.body(_RESETTING) | shapes.IDEMPOTENT, responses=_DONE)
async def reset_consumer(request: Request, who: Admin) -> Response:
    """Let a consumer go on behind another position; a control fact records it."""
    service, asked = service_of(request), await order(request, Resetting)
    given = msgspec.structs.asdict(asked)

    async def act(_: Record | None) -> Response:
        done = await service.in_thread(projections.reset_consumer, service.store, **given, by=who.actor)
        return answer(msgspec.to_builtins(done))

    return await once(request, who, asked, act)


@router.get("/v1/wait", responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 404, 409, 422, 429, 501, 503))
async def wait(
    request: Request,
    who: Reader,
    projection: Annotated[str, Query(min_length=1, max_length=names.LABEL_MAX)],
    position: Position,
    timeout: Annotated[float, Query(ge=0, le=300, allow_inf_nan=False)] = TIMEOUT_SECONDS,
) -> Response:
    """Answer as soon as the rows of a projection are at `position`; 409 `not_caught_up` when the time is up."""
    service = service_of(request)
    seconds = min(timeout, service.limits.wait_seconds_max)
    with service.waits.enter():
        reached = await _wait(service, projection, position, seconds)
    told = {"projection": projection, "position": position, "reached": reached}
    return Response(msgspec.json.encode(told), media_type="application/json")


async def _wait(service: Service, name: str, position: int, seconds: float) -> int:
    """Looks now and then without holding a thread meanwhile."""
    reader = ViewReader(service.store, name)
    if await service.in_thread(reader.place) is None and name not in service.projections:
        raise errors.NothingHere()
    began, pause = time.monotonic(), POLL_SECONDS
    while (reached := await service.in_thread(reader.position)) < position:
        waited = time.monotonic() - began
        if waited >= seconds or service.draining:
            raise errors.NotCaughtUp(name=name, position=position, reached=reached, waited_ms=round(waited * 1000))
        await asyncio.sleep(min(pause, max(seconds - waited, 0)))
        pause = min(pause * 1.5, POLL_SECONDS_MAX)
    return reached


def _projections(service: Service) -> list[dict[str, Any]]:
    """Every projection that the service runs or that has rows here, in order of name."""
    if not has_order(service.store):
        return []
    log = service.store.log
    places = {place.projection: place for place in live_places(log.views, log.view_tables)}
    return [_projection(service, name, places.get(name)) for name in sorted(places.keys() | service.projections.keys())]


def _projection(service: Service, name: str, place: Place | None) -> dict[str, Any]:
    lag = lag_at(service.store, place.position if place is not None else 0)
    running = name in service.projections and name not in service.failures
    job = next((job for job in service.operations.jobs.all() if (job.kind, job.subject) == ("rebuild", name)), None)
    return {
        "name": name,
        "epoch": place.epoch if place is not None else None,
        "registered": name in service.projections,
        "running": running,
        "failure": service.failures.get(name),
        "rebuild": job.id if job is not None else None,
    } | lag_as_json(lag)


def lag_as_json(lag: Lag) -> dict[str, Any]:
    """A lag as JSON."""
    return {"position": lag.position, "head": lag.head, "lag_events": lag.events, "lag_seconds": lag.seconds}


def _consumers(service: Service) -> list[dict[str, Any]]:
    """Every consumer that keeps its place here, with its lag and its dead letters."""
    found = gauges(service.store) if has_order(service.store) else ()
    return [
        {"name": gauge.name, "dead_letters": gauge.dead_letters} | lag_as_json(gauge.lag)
        for gauge in found
        if gauge.kind == "consumer"
    ]


def _drop(service: Service, name: str, *, by: str, reason: str) -> ProjectionDropped:
    """Drop a projection. One that this service runs would only make its rows again."""
    if name in service.projections and name not in service.failures:
        raise errors.ReaderRuns(kind="projection", name=name)
    return projections.drop_projection(service.store, name, by=by, reason=reason)
