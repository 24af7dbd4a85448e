"""What routes of operators share: JSON out, changes that happen once per idempotency key, and jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick.server.http import idempotency
from tallystick.server.http.route import HttpRequest, Responses
from tallystick.server.jobs import Job

ADMIN_REFUSALS = (401, 403, 404, 409, 422, 429, 501, 503)
BODY_REFUSALS = (400, 408, 413, 415)
READ = Responses(dict[str, Any], ADMIN_REFUSALS)
CHANGED = Responses(dict[str, Any], (*ADMIN_REFUSALS, 507, *BODY_REFUSALS))
JOB = Responses(Job, ADMIN_REFUSALS, (202,))
JOB_FROM_BODY = Responses(Job, (*ADMIN_REFUSALS, *BODY_REFUSALS), (202,))


def reply(value: Any, *, status: int = 200, secret: bool = False) -> Response:
    """A value as JSON. No cache on the way may keep a secret."""
    headers = {"cache-control": "no-store"} if secret else None
    return Response(msgspec.json.encode(value), status, headers, "application/json")


async def change(request: HttpRequest, body: Any, work: Callable[[], Awaitable[Any]]) -> Response:
    """The result of `work` as JSON; it is done once per idempotency key."""

    async def act(_: Any) -> Response:
        return reply(await work())

    return await idempotency.once(request, body, act)


async def begin(request: HttpRequest, body: Any, job: Callable[..., Job], *args: Any, **options: Any) -> Response:
    """A job that was begun, and where to ask for it; it is begun once per idempotency key."""

    async def act(_: Any) -> Response:
        by = request.principal.actor
        begun = await request.service.run(job, request.service, *args, **options, by=by)
        headers = {"location": f"/v1/jobs/{begun.id}"}
        return Response(msgspec.json.encode(begun), 202, headers, "application/json")

    return await idempotency.once(request, body, act)
