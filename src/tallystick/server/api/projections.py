"""Projections and consumers: where each is, making the rows of one anew, retiring one, letting one go on elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick import projections
from tallystick.server import projecting
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import ADMIN_REFUSALS, BODY_REFUSALS, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.http.idempotency import Record, once

router = APIRouter(tags=["projections"])


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
    found = await service.run(projecting.listed, service)
    return answer({"projections": found, "consumers": await service.run(projecting.consumers, service)})


@router.get("/v1/consumers", responses=read_answers())
async def list_consumers(request: Request, who: Admin) -> Response:
    """Every consumer that keeps a place here, with its lag and the number of its dead letters."""
    service = service_of(request)
    return answer({"consumers": await service.run(projecting.consumers, service)})


@router.post(
    "/v1/projections/{name}/rebuild", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers()
)
async def rebuild_projection(name: str, request: Request, who: Admin) -> Response:
    """Make the rows of a projection anew, beside the live ones, which stay readable until the new have caught up."""
    return await begin(request, who, None, projecting.begin_rebuild, name)


@router.post("/v1/projections/{name}/drop", openapi_extra=shapes.body(_DROPPING) | shapes.IDEMPOTENT, responses=_DONE)
async def drop_projection(name: str, request: Request, who: Admin) -> Response:
    """Drop the rows or tables of a projection that this service does not run; a control fact records it."""
    service, asked = service_of(request), await order(request, Dropping)

    async def act(_: Record | None) -> Response:
        done = await service.in_thread(projecting.drop, service, name, by=who.actor, reason=asked.reason)
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
