"""Long operations: the progress of each one; and one of them, a profile of every thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors
from tallystick.server.access import Need
from tallystick.server.api.parameters import IDEMPOTENT
from tallystick.server.api.reply import ADMIN_REFUSALS, JOB_FROM_BODY, READ, begin, reply
from tallystick.server.http import bodies
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service

routes = Routes("operations")

EVERY_SECONDS = 0.01
SECONDS_MAX = 60.0
FRAMES_MAX = 60
STACKS_MAX = 2000


@routes.get("/v1/jobs", Need.ADMIN, READ)
async def list_jobs(request: HttpRequest) -> Response:
    """The long operations of this process, the newest first."""
    return reply({"jobs": request.service.operations.jobs.all()})


@routes.get("/v1/jobs/{id}", Need.ADMIN, Responses(Job, ADMIN_REFUSALS))
async def read_job(request: HttpRequest, id: str) -> Response:
    """One long operation: its progress, and its result."""
    return reply(request.service.operations.jobs.get(id))


# --- a profile -------------------------------------------------------------------------------------------------------


class ProfileBody(msgspec.Struct, forbid_unknown_fields=True):
    """For how long to take a profile."""

    seconds: Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": SECONDS_MAX})] = 5.0


@routes.post("/v1/profile", Need.ADMIN, JOB_FROM_BODY, body=ProfileBody, headers=IDEMPOTENT)
async def profile(request: HttpRequest) -> Response:
    """Sample the stack of every thread a hundred times a second. The result of the job is folded stacks.

    Flame graph tools read folded stacks (`thread;outer;inner count`). They contain only names of code.
    """
    body = await bodies.read_small(request, ProfileBody)
    if not 0 < body.seconds <= SECONDS_MAX:
        raise errors.InvalidValue(what="seconds", value=body.seconds, must=f"up to {SECONDS_MAX:g}")
    return await begin(request, body, _begin_profile, seconds=body.seconds)


def _begin_profile(service: Service, *, seconds: float, by: str) -> Job:
    looks = max(1, round(seconds / EVERY_SECONDS))
    return service.operations.jobs.begin("profile", lambda progress: _sampled(looks, progress), total=looks, by=by)


def _sampled(looks: int, progress: Progress) -> dict[str, Any]:
    found: Counter[str] = Counter()
    own = threading.get_ident()
    for look in range(1, looks + 1):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                found[_folded(names.get(ident, "thread"), frame)] += 1
        progress(look)
        time.sleep(EVERY_SECONDS)
    return {"looks": looks, "every_ms": EVERY_SECONDS * 1000, "stacks": dict(found.most_common(STACKS_MAX))}


def _folded(thread: str, frame: FrameType | None) -> str:
    """A stack as one line, the innermost last."""
    steps: list[str] = []
    while frame is not None and len(steps) < FRAMES_MAX:
        code = frame.f_code
        steps.append(f"{os.path.basename(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return ";".join([thread, *reversed(steps)])
