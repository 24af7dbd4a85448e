"""Routes of the console: an operator signs in with a token, which is kept in a cookie that only /console sees.

The cookie is HttpOnly, SameSite=Strict and bound to the path. The API never reads it. A request that changes something
must come from a page of this console.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse, Response

from tallystick import errors
from tallystick.server.access import Need, Principal, authorise
from tallystick.server.console import render
from tallystick.server.http import problems
from tallystick.server.http.route import Handler, HttpRequest, Route
from tallystick.server.service import Service

Kept = TypeVar("Kept")

COOKIE = "tally_console"
HOME = "/console"
_HEADINGS = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    409: "Refused",
    410: "Pruned",
    422: "Not a valid request",
    429: "Too many requests",
}


async def identify(request: HttpRequest, secret: str | None, need: Need) -> Principal:
    """The principal who holds this token, by the same authorisation as in the API."""
    headers = [(b"authorization", b"Bearer " + secret.encode("latin-1", "replace"))] if secret else []
    principal = await authorise(request.service, {**request.scope, "headers": headers}, need)
    request.scope["tally.principal"] = principal
    return principal


def require_same_origin(request: HttpRequest) -> None:
    """Refuse a change that the page of another site asks for. Browsers send the origin with every such request."""
    origin = request.headers.get("origin", "")
    if not origin or urlsplit(origin).netloc != request.headers.get("host"):
        raise errors.NotAllowed(kind="page of another origin", what="change something here")


class ConsoleRoute(Route):
    """A route for a script of the console. The token comes from the cookie."""

    async def respond(self, request: HttpRequest) -> Response:
        """The response to a request."""
        if self.need is Need.OPEN:
            request.principal = await authorise(request.service, request.scope, self.need)
        else:
            if self.method != "GET":
                require_same_origin(request)
            request.principal = await identify(request, request.cookies.get(COOKIE), self.need)
        return await self.call(request)


class PageRoute(ConsoleRoute):
    """A page. If it fails, another page says what to do next; a caller who is not signed in is asked to sign in."""

    async def respond(self, request: HttpRequest) -> Response:
        """The page, or the page of a failure."""
        try:
            return await super().respond(request)
        except errors.NotAuthenticated:
            return RedirectResponse(_login(request), 303, render.HEADERS)
        except errors.TallyError as problem:
            return failure(request, problem)

    def arguments(self, request: HttpRequest) -> dict[str, Any]:
        """The parameters. The page of a failure names the whole address."""
        try:
            return super().arguments(request)
        except errors.InvalidInput:
            raise errors.InvalidValue(what="address", value=request.url.path, must="complete") from None


class ConsoleRoutes(list[Route]):
    """Routes of one kind below a path. Without a need they are for operators."""

    def __init__(self, prefix: str, kind: type[ConsoleRoute]) -> None:
        super().__init__()
        self._prefix = prefix
        self._kind = kind

    def get(self, path: str, need: Need = Need.ADMIN) -> Callable[[Handler], Handler]:
        """Add a route that reads."""
        return self._adds("GET", path, need)

    def post(self, path: str, need: Need = Need.ADMIN) -> Callable[[Handler], Handler]:
        """Add a route that changes something."""
        return self._adds("POST", path, need)

    def _adds(self, method: str, path: str, need: Need) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.append(self._kind(method, self._prefix + path, need, handler))
            return handler

        return add


def of_app(request: HttpRequest, name: str, make: Callable[[Service], Kept]) -> Kept:
    """The object that the app keeps under a name. It is made on first use, for the service."""
    state = request.app.state
    if not hasattr(state, name):
        setattr(state, name, make(request.service))
    found: Kept = getattr(state, name)
    return found


def pages() -> ConsoleRoutes:
    """An empty list of pages."""
    return ConsoleRoutes(HOME, PageRoute)


def data() -> ConsoleRoutes:
    """An empty list of routes for scripts."""
    return ConsoleRoutes(f"{HOME}/data", ConsoleRoute)


def _login(request: HttpRequest) -> str:
    """The login page, which leads back here."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{HOME}/login?next={quote(request.url.path + query, safe='')}"


def failure(request: HttpRequest, problem: errors.TallyError) -> Response:
    """The page of a failure."""
    problems.log(problem, request.scope.get("tally.request_id", ""))
    problem = problems.public(problem)
    status = problems.status_of(type(problem))
    heading = _HEADINGS.get(status, "That did not work" if status < 500 else "The store cannot answer")
    facts = {
        "code": problems.code_of(type(problem)),
        "heading": heading,
        "detail": problem.message,
        "advice": problem.next_step,
    }
    return render.page(request, "error.html", here="?", title=heading, status=status, **facts)
