"""The short way for appends: straight to the handler, past the framework's own resolving of parameters.

It costs several times what an append costs. The routes are the app's own, with their paths, their handlers and the
one authorisation that each names; the document and the tests see them like all others.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick.server.access import Needs, authorise
from tallystick.server.api import append
from tallystick.server.http import query
from tallystick.server.service import Service


class Line:
    """One route that is served the short way."""

    def __init__(self, route: APIRoute) -> None:
        self.route = route
        self.path: re.Pattern[str] = route.path_regex
        (self.method,) = route.methods or ("",)
        self.endpoint: Callable[..., Awaitable[Response]] = route.endpoint
        self.needs = needs_of(route)[0]


class Express:
    """Finds the line for a request, if there is one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.lines = [Line(route) for route in append.router.routes if isinstance(route, APIRoute)]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer the request; False if it has to take the long way."""
        for line in self.lines:
            if line.method == scope["method"] and (match := line.path.match(scope["path"])):
                scope["route"] = line.route
                query.none(scope)
                who = await authorise(self._service, scope, line.needs.need)
                response = await line.endpoint(**match.groupdict(), request=Request(scope, receive), who=who)
                await response(scope, receive, send)
                return True
        return False


def needs_of(route: APIRoute) -> list[Needs]:
    """The authorisations that a route names; there must be exactly one."""
    return [found.call for found in route.dependant.dependencies if isinstance(found.call, Needs)]
