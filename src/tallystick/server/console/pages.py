"""The routes of the console: pages under /console, what their scripts ask under /console/data, `/` leads there."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from tallystick import errors
from tallystick.server.access import Anybody
from tallystick.server.console import (
    assets,
    community,
    events,
    integrity,
    jobs,
    overview,
    projections,
    render,
    runs,
    sign_in,
    snapshots,
    streams,
    tail,
)
from tallystick.server.console.page_route import PageRoute
from tallystick.server.console.sign_in import Operator

_PAGES = (overview, events, streams, projections, snapshots, integrity, runs, community)
_DATA = (overview, events, tail, streams, projections, snapshots, integrity, runs, jobs)


elsewhere = APIRouter(prefix="/console", route_class=PageRoute, dependencies=[Operator])


@elsewhere.get("/{rest:path}", include_in_schema=False)
def show_nothing(rest: str) -> Response:
    """A page that is not there."""
    raise errors.NothingHere()


def router() -> APIRouter:
    """Everything that the console answers."""
    made = APIRouter()
    made.add_api_route("/", go_to_console, include_in_schema=False)
    for part in (assets, sign_in):
        made.include_router(part.router)
    for module in _PAGES:
        made.include_router(module.pages)
    for module in _DATA:
        made.include_router(module.data)
    made.include_router(elsewhere)
    return made


def go_to_console(principal: Anybody) -> Response:
    """From the root to the first page."""
    return RedirectResponse("/console", 307, render.HEADERS)
