"""All routes of the console: pages under /console, what their scripts ask under /console/data, and static files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

from starlette.responses import RedirectResponse, Response

from tallystick import errors
from tallystick.server.access import Need
from tallystick.server.console import (
    community,
    events,
    integrity,
    jobs,
    overview,
    projections,
    render,
    route,
    runs,
    sign_in,
    snapshots,
    streams,
    tail,
)
from tallystick.server.http.route import HttpRequest, Route

_PAGES = (sign_in, overview, events, streams, projections, snapshots, integrity, runs, community)
_DATA = (overview, events, tail, streams, projections, snapshots, integrity, runs, jobs)
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

static = route.pages()
unknown = route.pages()


def routes() -> list[Route]:
    """Every route of the console, in the order in which they are tried."""
    pages = [found for module in _PAGES for found in module.pages]
    data = [found for module in _DATA for found in module.data]
    return [Route("GET", "/", Need.OPEN, go_to_console), *static, *pages, *data, *unknown]


def go_to_console(request: HttpRequest) -> Response:
    """Redirect from the root to the first page."""
    return RedirectResponse(route.HOME, 307, render.HEADERS)


@unknown.get("/{rest:path}")
def show_nothing(request: HttpRequest, rest: str) -> Response:
    """The page for an address that does not exist."""
    raise errors.NothingHere()


@lru_cache(maxsize=1)
def assets() -> dict[str, tuple[bytes, str, str]]:
    """The style sheets, scripts and pictures: name -> content, media type, tag."""
    found = {}
    for file in resources.files("tallystick.server.console").joinpath("static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = (content, kind, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return found


@static.get("/static/{name}", Need.OPEN)
def serve_asset(request: HttpRequest, name: str) -> Response:
    """One file, with a tag, so that a browser that has it does not fetch it again."""
    if name not in assets():
        raise errors.NothingHere()
    content, kind, tag = assets()[name]
    headers = render.HEADERS | {"cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, kind)
