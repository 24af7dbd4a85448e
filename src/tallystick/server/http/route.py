"""Routes: each one has a method, a path, what its caller must be allowed, a handler, and a description for OpenAPI.

A handler is a function of the request and of the parameters in its address (`query.py`). It returns the response, or
raises an error, which becomes a problem. A handler that is no coroutine is called in a thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from starlette import requests
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import Receive, Scope, Send

from tallystick.server.access import Need, Principal, authorise
from tallystick.server.http import problems
from tallystick.server.http.query import Parameters
from tallystick.server.service import Service

Handler = TypeVar("Handler", bound=Callable[..., Any])


class HttpRequest(requests.Request):
    """A request, with the service that it came to, and once it is authorised with the principal who sent it."""

    service: Service
    principal: Principal

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.service = scope["app"].service


class Responses(NamedTuple):
    """What a route answers: a body of this shape with one of these statuses, or a problem with one of the refusals."""

    shape: Any
    refusals: tuple[int, ...]
    statuses: tuple[int, ...] = (200,)
    media: str = "application/json"


class Description(NamedTuple):
    """What a route takes and answers, in addition to its parameters.

    `no_query` says why a route without parameters takes none. If it is empty, parameters are ignored.
    """

    tag: str
    responses: Responses
    body: Any = None
    headers: tuple[dict[str, Any], ...] = ()
    no_query: str = "this route takes none"


class Route(BaseRoute):
    """A route of the API. Every route names exactly one need."""

    def __init__(
        self, method: str, path: str, need: Need, handler: Callable[..., Any], description: Description | None = None
    ) -> None:
        self.method = method
        self.path = path
        self.need = need
        self.handler = handler
        self.description = description
        self.parameters = Parameters(handler, path)
        self._regex, _, _ = compile_path(path)
        self._is_async = inspect.iscoroutinefunction(handler)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the request is for this path; only partly if it has another method."""
        found = self._regex.match(scope["path"])
        if found is None:
            return Match.NONE, {}
        match = Match.FULL if scope["method"] == self.method else Match.PARTIAL
        return match, {"path_params": found.groupdict(), "route": self}  # metrics and logs name the route

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for this path."""
        if scope["method"] == self.method:
            response = await self.respond(HttpRequest(scope, receive, send))
        else:
            response = problems.plain(405, "method_not_allowed", "Method Not Allowed", {"Allow": self.method})
        await response(scope, receive, send)

    async def respond(self, request: HttpRequest) -> Response:
        """The response to a request."""
        scope = request.scope
        if scope["query_string"] and self.description is not None and self.description.no_query:
            self.parameters.require_known(scope["query_string"], none_because=self.description.no_query)
        request.principal = await authorise(request.service, scope, self.need)
        return await self.call(request)

    async def call(self, request: HttpRequest) -> Response:
        """The response of the handler."""
        arguments = self.arguments(request)
        if self._is_async:
            response: Response = await self.handler(request, **arguments)
            return response
        return await run_in_threadpool(self.handler, request, **arguments)

    def arguments(self, request: HttpRequest) -> dict[str, Any]:
        """The parameters in the address, for the handler."""
        return self.parameters.read(request.scope["path_params"], request.scope["query_string"])


class Routes(list[Route]):
    """The routes of one subject, in the order in which they are tried."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag

    def get(self, path: str, need: Need, responses: Responses, **more: Any) -> Callable[[Handler], Handler]:
        """Add a route that reads."""
        return self._adds("GET", path, need, Description(self.tag, responses, **more))

    def post(self, path: str, need: Need, responses: Responses, **more: Any) -> Callable[[Handler], Handler]:
        """Add a route that changes something."""
        return self._adds("POST", path, need, Description(self.tag, responses, **more))

    def _adds(
        self, method: str, path: str, need: Need, description: Description | None
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.append(Route(method, path, need, handler, description))
            return handler

        return add
