"""Integrity: what is known to be damaged, and verifying the whole log."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tallystick.server.access import Need
from tallystick.server.api.parameters import IDEMPOTENT
from tallystick.server.api.reply import JOB, READ, begin, reply
from tallystick.server.http.route import HttpRequest, Routes
from tallystick.server.service import Service
from tallystick.server.verification import begin_verify

routes = Routes("operations")


@routes.get("/v1/integrity", Need.ADMIN, READ)
async def read_integrity(request: HttpRequest) -> Response:
    """Damaged ranges, problems that the engine reports, the last verification, and the one that is running."""
    return reply(await request.service.run(_known, request.service))


@routes.post("/v1/integrity/verify", Need.ADMIN, JOB, headers=IDEMPOTENT)
async def verify_log(request: HttpRequest) -> Response:
    """Verify every frame, checksum, sequence, link and control fact, in the background."""
    return await begin(request, None, begin_verify)


def _known(service: Service) -> dict[str, Any]:
    operations = service.operations
    sample = operations.sampler.sample()
    running = next((job for job in operations.jobs.all() if (job.kind, job.state) == ("verify", "running")), None)
    return {
        "holes": [{"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()],
        "problems": [msgspec.to_builtins(problem) for problem in sample.problems],
        "verified": msgspec.to_builtins(operations.verified),
        "running": msgspec.to_builtins(running),
    }
