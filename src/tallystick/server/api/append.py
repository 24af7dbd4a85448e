"""Appending: to one stream, or to several in one commit."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.server import appending
from tallystick.server.access import Appender, Principal
from tallystick.server.api import shapes
from tallystick.server.api.parameters import Kind, Name, service_of
from tallystick.server.appending import Caller, Done, PartIn, PartsIn, StreamIn
from tallystick.server.http import bodies, idempotency
from tallystick.server.service import Service

router = APIRouter(tags=["append"])


@router.post(
    "/v1/streams/{kind}/{name}/events",
    status_code=201,
    openapi_extra=shapes.body(shapes.STREAM_BODY) | shapes.IDEMPOTENT,
    responses=shapes.answers(201, shapes.APPENDED, 401, 403, 404, 408, 409, 413, 415, 422, 429, 501, 503, 507),
)
async def append_to_stream(kind: Kind, name: Name, request: Request, who: Appender) -> Response:
    """Append events to a stream, all or none, and answer when they are on disk."""
    service = service_of(request)
    length = bodies.expect_json(request)
    with service.appends.enter() as entry:
        body = await bodies.read(service, request, entry, length)
        given = await bodies.decode(body, StreamIn, entry)
        part = PartIn(stream=f"{kind}/{name}", events=given.events, expected=given.expected)
        done = await _append(service, request, who, [part], len(body))
    return _answer(done, done.parts[0])


@router.post(
    "/v1/append",
    status_code=201,
    openapi_extra=shapes.body(shapes.PARTS_BODY) | shapes.IDEMPOTENT,
    responses=shapes.answers(201, shapes.ALL_APPENDED, 401, 403, 404, 408, 409, 413, 415, 422, 429, 501, 503, 507),
)
async def append_to_streams(request: Request, who: Appender) -> Response:
    """Append events to several streams in one commit, all or none, and answer when they are on disk."""
    service = service_of(request)
    length = bodies.expect_json(request)
    with service.appends.enter() as entry:
        body = await bodies.read(service, request, entry, length)
        parts = (await bodies.decode(body, PartsIn, entry)).parts
        done = await _append(service, request, who, parts, len(body))
    return _answer(done, {"parts": done.parts})


async def _append(service: Service, request: Request, who: Principal, parts: list[PartIn], size: int) -> Done:
    began = time.perf_counter()
    key, endpoint = idempotency.key_of(request), idempotency.endpoint_of(request)
    caller = Caller(who, request.scope["tally.request_id"], endpoint, key)
    done = await appending.append(service, caller, parts, is_large=size > bodies.INLINE_BYTES_MAX)
    if not done.repeated:
        events = sum(len(part.events) for part in parts)
        service.meter.appended(events=events, size=size, seconds=time.perf_counter() - began)
    return done


def _answer(done: Done, told: Any) -> Response:
    headers = idempotency.REPLAYED if done.repeated else None
    return Response(msgspec.json.encode(told), 201, headers, "application/json")
