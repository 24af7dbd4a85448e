"""Retention: the policy, what it would do and why not, and doing it."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.server import snapshotting
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.order import BODY_REFUSALS, answer, begin, job_answers, order, read_answers
from tallystick.server.api.parameters import service_of

router = APIRouter(tags=["operations"])


class Retaining(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it is only to be said what would be done."""

    dry_run: bool = True


_RETAINING = {"type": "object", "additionalProperties": False, "properties": {"dry_run": {"type": "boolean"}}}


@router.get("/v1/retention", responses=read_answers())
async def read_retention(request: Request, who: Admin) -> Response:
    """The policy in force, and the last dry run."""
    service = service_of(request)
    return answer(await service.run(snapshotting.retention, service))


@router.post(
    "/v1/retention",
    status_code=202,
    openapi_extra=shapes.body(_RETAINING) | shapes.IDEMPOTENT,
    responses=job_answers(*BODY_REFUSALS),
)
async def begin_retention(request: Request, who: Admin) -> Response:
    """Say what the policy would let go and why not (`dry_run`, which is the default), or do it."""
    asked = await order(request, Retaining)
    return await begin(request, who, asked, snapshotting.begin_retention, dry_run=asked.dry_run)
