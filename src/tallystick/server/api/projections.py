"""Projections and consumers: how far each one is, waiting for one, rebuilding, dropping and resetting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors, projections
from tallystick.projections import Lag, ViewReader, gauges
from tallystick.projections.lag import lag_at
from tallystick.projections.retire import ProjectionDropped
from tallystick.server.access import Need
from tallystick.server.api.parameters import IDEMPOTENT, Label, Position
from tallystick.server.api.reply import CHANGED, JOB, READ, begin, change, reply
from tallystick.server.http import bodies
from tallystick.server.http.route import HttpRequest, Routes
from tallystick.server.rebuild import begin_rebuild
from tallystick.server.sample import has_order
from tallystick.server.service import Service
from tallystick.store.tables import live_places
from tallystick.store.views import Place

routes = Routes("projections")

POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.25
TIMEOUT_SECONDS = 5.0


# --- projections and consumers ---------------------------------------------------------------------------------------


class DropProjectionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why a projection is dropped."""

    reason: str = ""


class DropConsumerBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which consumer to drop, and whether to drop its dead letters too."""

    name: str
    letters: bool = False
    reason: str = ""


class ResetConsumerBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which consumer to reset, and the position after which it continues."""

    name: str
    position: Annotated[int, Meta(extra_json_schema={"minimum": 0})]
    reason: str = ""


@routes.get("/v1/projections", Need.ADMIN, READ)
async def list_projections(request: HttpRequest) -> Response:
    """Every projection and consumer with its lag, in events and in seconds."""
    service = request.service
    found = await service.run(_projections, service)
    return reply({"projections": found, "consumers": await service.run(_consumers, service)})


@routes.get("/v1/consumers", Need.ADMIN, READ)
async def list_consumers(request: HttpRequest) -> Response:
    """Every consumer that keeps a checkpoint here, with its lag and the number of its dead letters."""
    return reply({"consumers": await request.service.run(_consumers, request.service)})


@routes.post("/v1/projections/{name}/rebuild", Need.ADMIN, JOB, headers=IDEMPOTENT)
async def rebuild_projection(request: HttpRequest, name: str) -> Response:
    """Rebuild the rows of a projection. The live rows stay readable until the new ones have caught up."""
    return await begin(request, None, begin_rebuild, name)


@routes.post("/v1/projections/{name}/drop", Need.ADMIN, CHANGED, body=DropProjectionBody, headers=IDEMPOTENT)
async def drop_projection(request: HttpRequest, name: str) -> Response:
    """Drop the rows or tables of a projection that this service does not run. A control fact records it."""
    service, body = request.service, await bodies.read_small(request, DropProjectionBody)
    by = request.principal.actor
    return await change(request, body, lambda: service.in_thread(_drop, service, name, by=by, reason=body.reason))


@routes.post("/v1/consumers/drop", Need.ADMIN, CHANGED, body=DropConsumerBody, headers=IDEMPOTENT)
async def drop_consumer(request: HttpRequest) -> Response:
    """Drop the checkpoint of a consumer, and with `letters` its dead letters. A control fact records it."""
    return await _change_consumer(
        request, await bodies.read_small(request, DropConsumerBody), projections.drop_consumer
    )


@routes.post("/v1/consumers/reset", Need.ADMIN, CHANGED, body=ResetConsumerBody, headers=IDEMPOTENT)
async def reset_consumer(request: HttpRequest) -> Response:
    """Let a consumer continue after another position. A control fact records it."""
    return await _change_consumer(
        request, await bodies.read_small(request, ResetConsumerBody), projections.reset_consumer
    )


async def _change_consumer(request: HttpRequest, body: Any, function: Callable[..., Any]) -> Response:
    service, by = request.service, request.principal.actor
    options = msgspec.structs.asdict(body)
    return await change(request, body, lambda: service.in_thread(function, service.store, **options, by=by))


# --- waiting for one -------------------------------------------------------------------------------------------------


@routes.get("/v1/wait", Need.READ, READ)
async def wait(
    request: HttpRequest,
    projection: Label,
    position: Position,
    timeout: Annotated[float, Meta(ge=0, le=300)] = TIMEOUT_SECONDS,
) -> Response:
    """Answer as soon as the rows of a projection are at `position`; 409 `not_caught_up` when the time is over."""
    service = request.service
    seconds = min(timeout, service.limits.wait_seconds_max)
    with service.waits.enter():
        reached = await _wait(service, projection, position, seconds)
    return reply({"projection": projection, "position": position, "reached": reached})


async def _wait(service: Service, name: str, position: int, seconds: float) -> int:
    """Poll until the rows are at the position. No thread is held between two polls."""
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


# --- what is listed ---------------------------------------------------------------------------------------------------


def _projections(service: Service) -> list[dict[str, Any]]:
    """Every projection that the service runs or that has rows here, by name."""
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
    } | _lag(lag)


def _lag(lag: Lag) -> dict[str, Any]:
    return {"position": lag.position, "head": lag.head, "lag_events": lag.events, "lag_seconds": lag.seconds}


def _consumers(service: Service) -> list[dict[str, Any]]:
    found = gauges(service.store) if has_order(service.store) else ()
    return [
        {"name": gauge.name, "dead_letters": gauge.dead_letters} | _lag(gauge.lag)
        for gauge in found
        if gauge.kind == "consumer"
    ]


def _drop(service: Service, name: str, *, by: str, reason: str) -> ProjectionDropped:
    """Drop a projection. The service would write the rows of one that it runs again."""
    if name in service.projections and name not in service.failures:
        raise errors.ReaderRuns(kind="projection", name=name)
    return projections.drop_projection(service.store, name, by=by, reason=reason)
