"""Profiling data of the running service."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick import errors
from tallystick.server import profiling
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, begin, job_answers, order

router = APIRouter(tags=["operations"])


class Profiling(msgspec.Struct, forbid_unknown_fields=True):
    """For how long."""

    seconds: float = 5.0


_PROFILING = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": profiling.SECONDS_MAX}},
}


@router.post(
    "/v1/profile",
    status_code=202,
    openapi_extra=shapes.body(_PROFILING) | shapes.IDEMPOTENT,
    responses=job_answers(*BODY_REFUSALS),
)
async def profile(request: Request, who: Admin) -> Response:
    """Look at what every thread does, a hundred times a second; the job's result is folded stacks."""
    asked = await order(request, Profiling)
    if not 0 < asked.seconds <= profiling.SECONDS_MAX:
        raise errors.InvalidValue(what="seconds", value=asked.seconds, must=f"up to {profiling.SECONDS_MAX:g}")
    return await begin(request, who, asked, profiling.begin_profile, seconds=asked.seconds)
