"""The style sheets, scripts and pictures of the console, each by name from a list that is read once."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response

from tallystick import errors
from tallystick.server.access import Anybody
from tallystick.server.console import render
from tallystick.server.console.page_route import PageRoute

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

router = APIRouter(prefix="/console", route_class=PageRoute)


@lru_cache(maxsize=1)
def assets() -> dict[str, tuple[bytes, str, str]]:
    """Name -> content, media type, tag."""
    found = {}
    for file in resources.files("tallystick.server.console").joinpath("static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = (content, kind, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return found


@router.get("/static/{name}", include_in_schema=False)
def serve_asset(principal: Anybody, request: Request, name: str) -> Response:
    """One file, with a tag, so that a browser that has it need not fetch it again."""
    if name not in assets():
        raise errors.NothingHere()
    content, kind, tag = assets()[name]
    headers = render.HEADERS | {"cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, kind)
