"""The app: routes, what every request passes, and how errors are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Anybody
from tallystick.server.api import (
    append,
    community,
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
from tallystick.server.http import problems, query
from tallystick.server.http.front import Front
from tallystick.server.service import Service

ROUTERS: tuple[APIRouter, ...] = (
    append.router,
    events.router,
    follow.router,
    streams.router,
    events.trail,
    store.router,
    projections.router,
    snapshots.router,
    integrity.router,
    snapshots.retention,
    runs.router,
    tokens.router,
    community.router,
    jobs.router,
    probes.router,
)
DESCRIPTION = "An event store over HTTP. Errors are application/problem+json; `code` tells them apart."

_CODES = {404: "not_found", 405: "method_not_allowed"}


class Application(FastAPI):
    """The app, with its front outermost."""

    def __init__(self, service: Service, **options: Any) -> None:
        super().__init__(**options)
        self.state.service = service
        self._front = Front(super().__call__, service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the app."""
        scope["app"] = self
        if scope["type"] == "http":
            query.rename(scope)
        await self._front(scope, receive, send)


def build(service: Service) -> FastAPI:
    """The app that serves a service."""
    app = Application(
        service,
        title="Tallystick",
        version="1",
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.add_exception_handler(errors.TallyError, _refused)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    for router in ROUTERS:
        app.include_router(router, dependencies=[] if router is probes.router else [Depends(query.known)])
    app.include_router(document)
    app.include_router(pages.router())
    return app


document = APIRouter()


@document.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, who: Anybody) -> dict[str, Any]:
    """The OpenAPI document of this service."""
    found: dict[str, Any] = request.app.openapi()
    return found


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    await service.start()
    try:
        yield
    finally:
        await service.stop()


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, errors.TallyError)
    request.app.state.service.meter.refused(code=problems.code_of(type(problem)))
    problems.log(problem, request.scope["tally.request_id"])
    return problems.response(problem)


async def _failed(request: Request, problem: Exception) -> Response:
    """What nobody expected. The framework raises it again for the front, which logs it under the request's id."""
    detail = "the service failed; the log has the reason under this request id"
    return problems.plain(500, "internal", detail)


async def _unfit(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)
    first: Any = problem.errors()[0]
    place = ".".join(str(step) for step in first["loc"])[:200]
    return problems.response(errors.InvalidInput(reason=f"{place}: {first['msg'][:200]}"))


async def _http(request: Request, problem: Exception) -> Response:
    """What the router itself refuses. An unknown path is answered as everything else that is not there."""
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        return problems.response(errors.NothingHere())
    code = _CODES.get(problem.status_code, "refused")
    headers = dict(problem.headers) if problem.headers else None
    return problems.plain(problem.status_code, code, str(problem.detail), headers)
