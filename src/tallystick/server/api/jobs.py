"""Long operations: how each stands."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server.access import Admin
from tallystick.server.api.order import JOB, answer, read_answers
from tallystick.server.api.parameters import service_of

router = APIRouter(tags=["operations"])


@router.get("/v1/jobs", responses=read_answers())
async def list_jobs(request: Request, who: Admin) -> Response:
    """The long operations of this process, the newest first."""
    return answer({"jobs": service_of(request).operations.jobs.all()})


@router.get("/v1/jobs/{id}", responses=read_answers(JOB))
async def read_job(id: str, request: Request, who: Admin) -> Response:
    """One long operation: how far it is, and what came of it."""
    return answer(service_of(request).operations.jobs.get(id))
