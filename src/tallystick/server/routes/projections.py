"""Projections: where each is, and making one anew."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server import projecting
from tallystick.server.access import Admin
from tallystick.server.routes import shapes
from tallystick.server.routes.asking import service_of
from tallystick.server.routes.orders import answer, begin, job_answers, read_answers

router = APIRouter(tags=["projections"])


@router.get("/v1/projections", responses=read_answers())
async def list_projections(request: Request, who: Admin) -> Response:
    """Every projection and consumer with its lag, in events and in seconds."""
    service = service_of(request)
    found = await service.run(projecting.listed, service)
    return answer({"projections": found, "consumers": await service.run(projecting.consumers, service)})


@router.post(
    "/v1/projections/{name}/rebuild", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers()
)
async def rebuild_projection(name: str, request: Request, who: Admin) -> Response:
    """Make the rows of a projection anew, beside the live ones, which stay readable until the new have caught up."""
    return await begin(request, who, None, projecting.begin_rebuild, name)
