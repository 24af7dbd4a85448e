"""Long operations: how far each one is; and one of them, a profile of every thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick import errors
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, JOB, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import service_of
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service

router = APIRouter(tags=["operations"])

EVERY_SECONDS = 0.01
SECONDS_MAX = 60.0
FRAMES_MAX = 60
STACKS_MAX = 2000


@router.get("/v1/jobs", responses=read_answers())
async def list_jobs(request: Request, who: Admin) -> Response:
    """The long operations of this process, the newest first."""
    return answer({"jobs": service_of(request).operations.jobs.all()})


@router.get("/v1/jobs/{id}", responses=read_answers(JOB))
async def read_job(id: str, request: Request, who: Admin) -> Response:
    """One long operation: how far it is, and what came of it."""
    return answer(service_of(request).operations.jobs.get(id))


class Profiling(msgspec.Struct, forbid_unknown_fields=True):
    """For how long."""

    seconds: float = 5.0


_PROFILING = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_MAX}},
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
    if not 0 < asked.seconds <= SECONDS_MAX:
        raise errors.InvalidValue(what="seconds", value=asked.seconds, must=f"up to {SECONDS_MAX:g}")
    return await begin(request, who, asked, _begin_profile, seconds=asked.seconds)


def _begin_profile(service: Service, *, seconds: float, by: str) -> Job:
    """Look at all threads for so many seconds, in the background."""
    looks = max(1, round(seconds / EVERY_SECONDS))
    return service.operations.jobs.begin("profile", lambda progress: _sampled(looks, progress), total=looks, by=by)


def _sampled(looks: int, progress: Progress) -> dict[str, Any]:
    found: Counter[str] = Counter()
    own = threading.get_ident()
    for look in range(1, looks + 1):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                found[folded(names.get(ident, "thread"), frame)] += 1
        progress(look)
        time.sleep(EVERY_SECONDS)
    return {"looks": looks, "every_ms": EVERY_SECONDS * 1000, "stacks": dict(found.most_common(STACKS_MAX))}


def folded(thread: str, frame: FrameType | None) -> str:
    """A stack as one line, the innermost last."""
    steps: list[str] = []
    while frame is not None and len(steps) < FRAMES_MAX:
        code = frame.f_code
        steps.append(f"{os.path.basename(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return ";".join([thread, *reversed(steps)])
