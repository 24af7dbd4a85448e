"""What watches the service from outside: /metrics, /health, /ready."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.server import health, metrics
from tallystick.server.access import Admin, Anybody
from tallystick.server.api import shapes
from tallystick.server.api.parameters import service_of
from tallystick.server.health import Verdict

router = APIRouter(tags=["operations"])

_TEXT = {"type": "string"}
_PROBE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": shapes.ANY_OBJECT}}, "description": "yes"},
    503: {"content": {"application/json": {"schema": shapes.ANY_OBJECT}}, "description": "no, with the reasons"},
}


@router.get("/metrics", responses=shapes.answers(200, _TEXT, 401, 403, media="text/plain"))
async def read_metrics(request: Request, who: Admin) -> Response:
    """Figures for Prometheus."""
    service = service_of(request)
    page = await service.in_thread(service.operations.metrics.page)
    return Response(page, headers={"content-type": metrics.MEDIA_TYPE})


@router.get("/health", responses=_PROBE)
async def read_health(request: Request, who: Anybody) -> Response:
    """Whether the store is sound: log, index, free space, writer, the last verification."""
    service = service_of(request)
    return _told(await service.in_thread(health.health, service.operations))


@router.get("/ready", responses=_PROBE)
async def read_ready(request: Request, who: Anybody) -> Response:
    """Whether requests are taken and can be done."""
    service = service_of(request)
    return _told(await service.in_thread(health.ready, service.operations))


def _told(verdict: Verdict) -> Response:
    body = {"ok": verdict.ok, "reasons": verdict.reasons} | verdict.facts
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(body), verdict.status, headers, "application/json")
