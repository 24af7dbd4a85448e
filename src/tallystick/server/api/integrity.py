"""Integrity: what is known of the log's soundness, and verifying all of it."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import answer, begin, job_answers, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.service import Service
from tallystick.server.verification import begin_verify

router = APIRouter(tags=["operations"])


@router.get("/v1/integrity", responses=read_answers())
async def read_integrity(request: Request, who: Admin) -> Response:
    """Damaged ranges, what the engine knows to be wrong, the last verification and the one under way."""
    service = service_of(request)
    return answer(await service.run(_known, service))


@router.post("/v1/integrity/verify", status_code=202, openapi_extra=shapes.IDEMPOTENT, responses=job_answers())
async def verify_log(request: Request, who: Admin) -> Response:
    """Verify every frame, checksum, sequence, link and control fact, in the background."""
    return await begin(request, who, None, begin_verify)


def _known(service: Service) -> dict[str, Any]:
    """What is known now: damaged ranges, the engine's problems, the last verification, and the one under way."""
    operations = service.operations
    sample = operations.sampler.sample()
    running = next((job for job in operations.jobs.all() if (job.kind, job.state) == ("verify", "running")), None)
    return {
        "holes": [{"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()],
        "problems": [msgspec.to_builtins(problem) for problem in sample.problems],
        "verified": msgspec.to_builtins(operations.verified),
        "running": msgspec.to_builtins(running),
    }
