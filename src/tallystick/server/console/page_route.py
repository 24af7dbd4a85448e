"""How the pages of the console answer when something is wrong: with a page that says what to do next."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse

from tallystick import errors
from tallystick.server.console import render
from tallystick.server.http import problems

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_HEADINGS = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Nothing here",
    409: "Refused",
    410: "Pruned",
    422: "That cannot be asked",
    429: "Too much at once",
}


class PageRoute(APIRoute):
    """A route whose failures are pages that say what to do next; who is not signed in is asked to."""

    def get_route_handler(self) -> Handler:
        """The handler, with its failures shown."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except errors.NotAuthenticated:
                return RedirectResponse(_login(request), 303, render.HEADERS)
            except errors.TallyError as problem:
                return failure(request, problem)
            except RequestValidationError:
                return failure(request, errors.InvalidValue(what="address", value=request.url.path, must="complete"))

        return shown


def _login(request: Request) -> str:
    """The way to the login page and back."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/console/login?next={quote(request.url.path + query, safe='')}"


def failure(request: Request, problem: errors.TallyError) -> Response:
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
