"""What the routes of operating share: small bodies in, JSON out, jobs begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response

from tallystick.server.access import Principal
from tallystick.server.api import shapes
from tallystick.server.api.parameters import service_of
from tallystick.server.http import bodies, idempotency
from tallystick.server.jobs import Job

Shape = TypeVar("Shape")

JOB: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "kind": {"type": "string"},
        "subject": {"type": "string"},
        "state": {"enum": ["running", "done", "failed", "stopped"]},
        "done": {"type": "integer"},
        "total": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "result": {},
        "problem": {},
    },
    "required": ["id", "kind", "state", "done", "total"],
}
ADMIN_REFUSALS = (401, 403, 404, 409, 422, 429, 501, 503)
BODY_REFUSALS = (400, 408, 413, 415)


def read_answers(schema: dict[str, Any] = shapes.ANY_OBJECT) -> dict[Any, Any]:
    """What a route that tells answers."""
    return shapes.answers(200, schema, *ADMIN_REFUSALS)


def job_answers(*more: int) -> dict[Any, Any]:
    """What a route that begins a job answers."""
    return shapes.answers(202, JOB, *ADMIN_REFUSALS, *more)


async def order(request: Request, shape: type[Shape]) -> Shape:
    """The body of a request as what it must be; nothing at all is an empty object."""
    service = service_of(request)
    if request.headers.get("content-length") in (None, "0") and "transfer-encoding" not in request.headers:
        return bodies.decoded(b"{}", shape)
    length = bodies.expect_json(request)
    with service.appends.enter() as entry:
        body = await bodies.read(service, request, entry, length)
        return await bodies.decode(body, shape, entry)


def answer(told: Any, *, status: int = 200, secret: bool = False) -> Response:
    """JSON; what is secret must not be kept on the way."""
    headers = {"cache-control": "no-store"} if secret else None
    return Response(msgspec.json.encode(told), status, headers, "application/json")


def begun(job: Job) -> Response:
    """A job that was begun, and where to ask for it."""
    headers = {"location": f"/v1/jobs/{job.id}"}
    return Response(msgspec.json.encode(job), 202, headers, "application/json")


async def begin(
    request: Request, who: Principal, asked: Any, job: Callable[..., Job], *given: Any, **named: Any
) -> Response:
    """The answer to a request that begins a job, once under its key."""
    service = service_of(request)

    async def act(_: Any) -> Response:
        return begun(await service.run(job, service, *given, **named, by=who.actor))

    return await idempotency.once(request, who, asked, act)
