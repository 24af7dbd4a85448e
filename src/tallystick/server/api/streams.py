"""Streams: which there are, one of them, and its events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallystick.event import names
from tallystick.server import reading
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import LIMIT, Kind, Label, Limit, MaybePosition, Name, Position, service_of
from tallystick.server.http.page_response import Page

router = APIRouter(tags=["streams"])


@router.get("/v1/streams", responses=shapes.answers(200, shapes.STREAMS, 401, 403, 404, 422, 429, 501, 503))
async def list_streams(
    request: Request,
    who: Reader,
    after: Annotated[str, Query(max_length=names.LABEL_MAX)] = "",
    limit: Limit = LIMIT,
    kind: Label = None,
    org: Label = None,
) -> Response:
    """The streams in order of name. A page may be short: go on with `after` set to `next` until that is null."""
    if kind is not None:
        names.check_kind(kind)
    service = service_of(request)
    return await Page.of(service, reading.streams, who, after=after, limit=limit, kind=kind, org=org)


@router.get(
    "/v1/streams/{kind}/{name}", responses=shapes.answers(200, shapes.STREAM, 401, 403, 404, 422, 429, 501, 503)
)
async def read_stream(kind: Kind, name: Name, request: Request, who: Reader) -> Response:
    """How long a stream is, whose it is, the link of its last event, and what was pruned of it."""
    return await Page.of(service_of(request), reading.stream, who, f"{kind}/{name}")


@router.get(
    "/v1/streams/{kind}/{name}/events",
    responses=shapes.answers(200, shapes.EVENTS, 401, 403, 404, 410, 422, 429, 501, 503),
)
async def read_stream_events(
    kind: Kind,
    name: Name,
    request: Request,
    who: Reader,
    after: Position = 0,
    until: MaybePosition = None,
    limit: Limit = LIMIT,
) -> Response:
    """A page of the events of a stream behind the seq `after`. Go on with `after` set to `through`."""
    service, stream = service_of(request), f"{kind}/{name}"
    return await Page.of(service, reading.stream_events, who, stream, after=after, until=until, limit=limit)
