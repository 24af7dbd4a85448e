"""The state of a stream, now or at any point of its history."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallystick import errors
from tallystick.event import limits
from tallystick.server import reading
from tallystick.server.access import Reader
from tallystick.server.merging import merge
from tallystick.server.pages import Page
from tallystick.server.routes import shapes
from tallystick.server.routes.asking import Kind, MaybePosition, Name, service_of

router = APIRouter(tags=["streams"])


@router.get(
    "/v1/streams/{kind}/{name}/state",
    responses=shapes.answers(200, shapes.STATE, 401, 403, 404, 409, 410, 422, 429, 501, 503),
)
async def read_state(
    kind: Kind,
    name: Name,
    request: Request,
    who: Reader,
    reducer: Annotated[str, Query(max_length=200)] = merge.name,
    seq: MaybePosition = None,
    time: Annotated[int | None, Query(ge=0, le=limits.INT_MAX, description="Nanoseconds since 1970.")] = None,
) -> Response:
    """What a stream adds up to, at its end, a seq or a time. `merge` lays its payloads over each other."""
    if seq is not None and time is not None:
        raise errors.InvalidInput(reason="give a seq or a time, not both")
    service, stream = service_of(request), f"{kind}/{name}"
    return await Page.of(service, reading.state_of, who, stream, reducer=reducer, seq=seq, time=time)
