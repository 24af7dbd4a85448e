"""Pages from templates. Everything printed is escaped, and hidden characters are made visible."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from tallystick.event import ids
from tallystick.event.model import Event
from tallystick.server.access import Need, Principal
from tallystick.server.console import display
from tallystick.server.http.route import HttpRequest
from tallystick.server.service import Service

HEADERS = {"cache-control": "no-store"}  # every response of the service has the other headers
UNKNOWN = {"engine": "–", "id": "–", "head": 0, "holes": 0, "actor": "nobody", "signed_in": False}
MENU = (
    ("", "Overview", "o"),
    ("/events", "Events", "e"),
    ("/streams", "Streams", "s"),
    ("/projections", "Projections", "p"),
    ("/snapshots", "Snapshots", "h"),
    ("/integrity", "Integrity", "i"),
    ("/runs", "Runs", "r"),
    ("/community", "Community", "c"),
)


def stream_href(stream: str) -> str:
    """The address of the page of a stream."""
    return f"/console/streams/{quote(stream, safe='/:@=+-._')}"


def tag_href(tag: str) -> str:
    """The page of the events with a tag."""
    return f"/console/events?{urlencode({'tag': tag})}"


def event_href(event: Event) -> str:
    """The address of the page of an event."""
    return f"/console/events/{ids.to_text(event.id)}"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tallystick.server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=display.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filter_ in (
        display.instant,
        display.moment,
        display.count,
        display.size,
        display.glance,
        stream_href,
        event_href,
        tag_href,
    ):
        made.filters[filter_.__name__] = filter_
    return made


TEMPLATES = _environment()


def page(
    request: HttpRequest, template: str, *, here: str, title: str, status: int = 200, **facts: Any
) -> HTMLResponse:
    """A page of the console, in its frame."""
    service = request.service
    frame = {
        "menu": MENU,
        "here": here,
        "title": title,
        "store": _store_facts(request, service),
        "place": place_of(service),
        "url": shown_url(service.settings.url),
    }
    return bare(template, status=status, **(frame | facts))


def bare(template: str, *, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page without the frame."""
    return HTMLResponse(TEMPLATES.get_template(template).render(**facts), status, HEADERS)


def _store_facts(request: HttpRequest, service: Service) -> dict[str, Any]:
    """What the frame shows of the store: nothing to a caller who is not allowed in."""
    principal: Principal | None = request.scope.get("tally.principal")
    if principal is None or not principal.may(Need.ADMIN):
        return UNKNOWN
    store = service.store
    return {
        "engine": store.log.engine,
        "id": store.log.store_id.hex(),
        "head": store.head(),
        "holes": len(store.holes()),
        "actor": principal.actor,
        "signed_in": bool(principal.token_id),
    }


def place_of(service: Service) -> str:
    """Where the store is, in a few words, without secrets."""
    profile = service.store.log.profile
    kind = "" if profile == "plain" else f", profile {profile}"
    return f"{shown_url(service.settings.url)}{kind}"


def shown_url(url: str) -> str:
    """The address of a store, without its password and options."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def data(found: Any) -> Response:
    """Data for a script."""
    return Response(msgspec.json.encode(found), 200, HEADERS, "application/json")
