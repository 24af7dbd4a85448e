"""Signing in to the console with the token of an operator, and signing out."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import RedirectResponse, Response

from tallystick import errors
from tallystick.server.access import Need
from tallystick.server.console import render, route
from tallystick.server.console.route import COOKIE, HOME, identify, require_same_origin
from tallystick.server.http.route import HttpRequest

FORM_BYTES_MAX = 8_192

pages = route.pages()


def safe_next(given: str) -> str:
    """The page to open after signing in. It is always a page of this console."""
    path = given.partition("?")[0]
    inside = path == HOME or path.startswith(HOME + "/")
    return given if inside and "//" not in path and "\\" not in given and given.isprintable() else HOME


async def read_form(request: HttpRequest) -> dict[str, str]:
    """The fields of a small form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise errors.TooLarge(what="the form", size=len(body), unit="bytes", limit=FORM_BYTES_MAX)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[-1] for name, values in fields.items()}


@pages.get("/login", Need.OPEN)
def show_login(request: HttpRequest, next: str = HOME) -> Response:
    """The page that asks for a token."""
    return render.bare("login.html", problem="", next=safe_next(next))


@pages.post("/login", Need.OPEN)
async def sign_in(request: HttpRequest) -> Response:
    """Accept a token, if it is an operator's."""
    require_same_origin(request)
    form = await read_form(request)
    secret, target = form.get("token", "").strip(), safe_next(form.get("next", HOME))
    try:
        if not secret:
            raise errors.NotAuthenticated(reason="no token was given")
        await identify(request, secret, Need.ADMIN)
    except (errors.NotAuthenticated, errors.NotAllowed) as problem:
        problem_text = f"{problem.message} {problem.next_step}"
        return render.bare("login.html", status=401, problem=problem_text, next=target)
    answer = RedirectResponse(target, 303, render.HEADERS)
    answer.set_cookie(COOKIE, secret, **_cookie(request))
    return answer


@pages.post("/logout", Need.OPEN)
def sign_out(request: HttpRequest) -> Response:
    """Forget the token."""
    require_same_origin(request)
    answer = RedirectResponse(f"{HOME}/login", 303, render.HEADERS | {"clear-site-data": '"cache"'})
    answer.delete_cookie(COOKIE, **_cookie(request))
    return answer


def _cookie(request: HttpRequest) -> dict[str, Any]:
    """Options of the cookie: sent only over TLS if the browser uses TLS; behind a proxy, its origin shows that."""
    is_secure = request.url.scheme == "https" or urlsplit(request.headers.get("origin", "")).scheme == "https"
    return {"path": HOME, "httponly": True, "samesite": "strict", "secure": is_secure}
