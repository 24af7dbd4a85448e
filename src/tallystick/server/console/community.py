"""The community page: members, peers, the last sync with each, and what is disputed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tallystick.server.console import rendering
from tallystick.server.console.routing import PageRoute
from tallystick.server.console.signing_in import Operator

pages = APIRouter(route_class=PageRoute, dependencies=[Operator])


@pages.get("/community", include_in_schema=False)
def show_community(request: Request) -> Response:
    """The community that this service takes part in, if any."""
    return rendering.page(request, "community.html", here="/community", title="Community", community=None)
