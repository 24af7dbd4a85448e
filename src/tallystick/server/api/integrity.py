"""Integrity: what is known of the log's soundness, and verifying all of it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server import verification
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import answer, begin, job_answers, read_answers
from tallystick.server.api.parameters import service_of

router = APIRouter(tags=["operations"])


@router.get("/v1/integrity", responses=read_answers())
async def read_integrity(request: Request, who: Admin) -> Response:
    """Damaged ranges, what the engine knows to be wrong, the last verification and the one under way."""
    service = service_of(request)
    return answer(await service.run(verification.known, service))


@router.post("/v1/integrity/verify", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers())
async def verify_log(request: Request, who: Admin) -> Response:
    """Verify every frame, checksum, sequence, link and control fact, in the background."""
    return await begin(request, who, None, verification.begin_verify)
