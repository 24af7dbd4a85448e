"""The state of a stream or of the whole store, now or at any point of its history; over a damaged log if asked for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallystick import errors, state
from tallystick.event import limits
from tallystick.server import reading
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import Kind, MaybePosition, Name, service_of
from tallystick.server.http.page_response import Page
from tallystick.server.merge import merge

router = APIRouter(tags=["streams"])
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
    return await Page.of(service, reading.state_of, who, stream, reducer=reducer, until=until, degraded=degraded)


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
    return await Page.of(service, reading.state_of_store, who, reducer=reducer, until=until, degraded=degraded)
