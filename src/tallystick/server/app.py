"""The app: all routes of the API and of the console, with the front before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Need
from tallystick.server.api import (
    append,
    community,
    conditions,
    events,
    follow,
    integrity,
    jobs,
    probes,
    projections,
    runs,
    snapshots,
    store,
    streams,
    tokens,
)
from tallystick.server.console import pages
from tallystick.server.http import openapi, problems
from tallystick.server.http.front import Front
from tallystick.server.http.route import HttpRequest, Route, Routes
from tallystick.server.service import Service

API: tuple[Routes, ...] = (
    append.routes,
    conditions.routes,
    events.routes,
    follow.routes,
    streams.routes,
    events.audit_routes,
    store.routes,
    projections.routes,
    snapshots.routes,
    integrity.routes,
    snapshots.retention_routes,
    runs.routes,
    tokens.routes,
    community.routes,
    jobs.routes,
    probes.routes,
)


class Application(Starlette):
    """The app of one service. The front answers every error, so Starlette's own middleware is not used."""

    def __init__(self, service: Service) -> None:
        routes = [route for part in API for route in part]
        document = Route("GET", "/openapi.json", Need.OPEN, read_document)
        super().__init__(routes=[*routes, document, *pages.routes()], lifespan=_lifespan)
        self.service = service
        self.router.redirect_slashes = False
        self.router.default = _not_found
        self._front = Front(self.router, service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the app."""
        scope["app"] = self
        await self._front(scope, receive, send)


def build(service: Service) -> Application:
    """The app that serves a service."""
    return Application(service)


async def read_document(request: HttpRequest) -> Response:
    """The OpenAPI document of this service."""
    return JSONResponse(_document())


@cache
def _document() -> dict[str, Any]:
    return openapi.document(route for part in API for route in part)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """An unknown path gets the same response as every other resource that does not exist."""
    await problems.response(errors.NothingHere())(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncIterator[None]:
    await app.service.start()
    try:
        yield
    finally:
        await app.service.stop()
