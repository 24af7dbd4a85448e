"""What monitoring asks for: /metrics, /health and /ready."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tallystick.server import health, metrics
from tallystick.server.access import Need
from tallystick.server.health import Verdict
from tallystick.server.http.route import HttpRequest, Responses, Routes

routes = Routes("operations")

PROBE = Responses(dict[str, Any], (), (200, 503))
IGNORED = ""  # a monitoring tool may add parameters


@routes.get("/metrics", Need.ADMIN, Responses(str, (401, 403), media="text/plain"), no_query=IGNORED)
async def read_metrics(request: HttpRequest) -> Response:
    """Figures for Prometheus."""
    service = request.service
    page = await service.in_thread(service.operations.metrics.page)
    return Response(page, headers={"content-type": metrics.MEDIA_TYPE})


@routes.get("/health", Need.OPEN, PROBE, no_query=IGNORED)
async def read_health(request: HttpRequest) -> Response:
    """Whether the store is sound: log, index, free space, writer, the last verification."""
    service = request.service
    return _verdict(await service.in_thread(health.health, service.operations))


@routes.get("/ready", Need.OPEN, PROBE, no_query=IGNORED)
async def read_ready(request: HttpRequest) -> Response:
    """Whether requests are accepted and can be served."""
    service = request.service
    return _verdict(await service.in_thread(health.ready, service.operations))


def _verdict(verdict: Verdict) -> Response:
    body = {"ok": verdict.ok, "reasons": verdict.reasons} | verdict.facts
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(body), verdict.status, headers, "application/json")
