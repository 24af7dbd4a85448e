"""Reading your own writes: wait, for a bounded time, until a projection is far enough."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from tallystick import errors
from tallystick.event import names
from tallystick.projections import ViewReader
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import Position, service_of
from tallystick.server.service import Service

router = APIRouter(tags=["projections"])

POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.25
TIMEOUT_SECONDS = 5.0


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
