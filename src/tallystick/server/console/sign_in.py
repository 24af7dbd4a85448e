"""Signing in to the console: a token of an operator, kept in a cookie that only /console sees.

The cookie is HttpOnly, SameSite=Strict and bound to the path. The API never reads it. A form or a script that changes
something must come from this very origin.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from tallystick import errors
from tallystick.server.access import Anybody, Need, Needs, Principal, authorise
from tallystick.server.console import render
from tallystick.server.console.page_route import PageRoute

COOKIE = "tally_console"
HOME = "/console"
FORM_BYTES_MAX = 8_192

router = APIRouter(prefix="/console", route_class=PageRoute)


class SignedIn(Needs):
    """The authorisation of a console route: the token comes from the cookie, and changes from this origin."""

    async def __call__(self, request: Request) -> Principal:
        """Who asks, if they may use the console."""
        if request.method not in ("GET", "HEAD"):
            require_same_origin(request)
        return await identify(request, request.cookies.get(COOKIE), self.need)


Operator = Depends(SignedIn(Need.ADMIN))


async def identify(request: Request, secret: str | None, need: Need) -> Principal:
    """Who holds this token, by the one authorisation that there is."""
    headers = [(b"authorization", b"Bearer " + secret.encode("latin-1", "replace"))] if secret else []
    principal = await authorise(request.app.state.service, {**request.scope, "headers": headers}, need)
    request.scope["tally.principal"] = principal
    return principal


def require_same_origin(request: Request) -> None:
    """Refuse what another site's page sent here. Browsers name the origin of everything that is not a plain read."""
    origin = request.headers.get("origin", "")
    if not origin or urlsplit(origin).netloc != request.headers.get("host"):
        raise errors.NotAllowed(kind="page of another origin", what="change something here")


def safe_next(given: str) -> str:
    """Where to go after signing in: a page of this console, whatever was asked for."""
    path = given.partition("?")[0]
    inside = path == HOME or path.startswith(HOME + "/")
    return given if inside and "//" not in path and "\\" not in given and given.isprintable() else HOME


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a small form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise errors.TooLarge(what="the form", size=len(body), unit="bytes", limit=FORM_BYTES_MAX)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[-1] for name, values in fields.items()}


@router.get("/login", include_in_schema=False)
def show_login(principal: Anybody, request: Request, next: str = HOME) -> Response:
    """The page that asks for a token."""
    return render.bare("login.html", problem="", next=safe_next(next))


@router.post("/login", include_in_schema=False)
async def sign_in(principal: Anybody, request: Request) -> Response:
    """Take a token, if it is an operator's."""
    require_same_origin(request)
    form = await read_form(request)
    secret, target = form.get("token", "").strip(), safe_next(form.get("next", HOME))
    try:
        if not secret:
            raise errors.NotAuthenticated(reason="no token was given")
        await identify(request, secret, Need.ADMIN)
    except (errors.NotAuthenticated, errors.NotAllowed) as problem:
        told = f"{problem.message} {problem.next_step}"
        return render.bare("login.html", status=401, problem=told, next=target)
    answer = RedirectResponse(target, 303, render.HEADERS)
    answer.set_cookie(COOKIE, secret, **_cookie(request))
    return answer


@router.post("/logout", include_in_schema=False)
def sign_out(principal: Anybody, request: Request) -> Response:
    """Forget the token."""
    require_same_origin(request)
    answer = RedirectResponse(f"{HOME}/login", 303, render.HEADERS | {"clear-site-data": '"cache"'})
    answer.delete_cookie(COOKIE, **_cookie(request))
    return answer


def _cookie(request: Request) -> dict[str, Any]:
    """Sent over TLS alone if the browser speaks TLS; behind a proxy only the browser knows, and names it as origin."""
    is_secure = request.url.scheme == "https" or urlsplit(request.headers.get("origin", "")).scheme == "https"
    return {"path": HOME, "httponly": True, "samesite": "strict", "secure": is_secure}
