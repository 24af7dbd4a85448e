"""The part of a URL after `?`: a name that a route does not know is refused, and those of the control plane are ours.

A misspelt filter that is passed over would answer with the events of everybody.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from fastapi.dependencies.models import Dependant
from starlette.types import Scope

from tallystick import errors

EVENT_ID = "after_event_id"
BY_POSITION = frozenset({"/v1/events", "/v1/follow", "/v1/audit"})  # elsewhere `after` is a seq or a name
OWN_NAMES = {
    EVENT_ID: "after",
    "org_id": "org",
    "app_id": "app",
    "env_id": "env",
    "event_type": "type",
}
"""The names that the control-plane document has for our parameters."""


def rename(scope: Scope) -> None:
    """Turn the control plane's names into ours."""
    query: bytes = scope["query_string"]
    if b"_" not in query or not scope["path"].startswith("/v1/"):
        return
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    names = OWN_NAMES if scope["path"] in BY_POSITION else {k: own for k, own in OWN_NAMES.items() if k != EVENT_ID}
    if any(name in names for name, _ in given):
        own = [(names.get(name, name), value) for name, value in given]
        scope["query_string"] = urlencode(own, encoding="latin-1").encode()


async def known(request: Request) -> None:
    """Refuse a parameter that the route does not have, and one that is given twice where it can have one value."""
    fields = {field.alias: field for field in _fields(request.scope["route"].dependant)}
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in fields:
            must = f"one of {', '.join(sorted(fields))}" if fields else "left out: this route takes none"
            raise errors.InvalidValue(what="query parameter", value=name[:40], must=must)
        if name in seen and not isinstance(fields[name].default, list):
            raise errors.InvalidValue(what="query parameter", value=name, must="given once")
        seen.add(name)


def none(scope: Scope) -> None:
    """Refuse any parameter."""
    if scope["query_string"]:
        given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        name = given[0][0] if given else "?"
        must = "left out: what is to be appended, and its expectation, are in the body"
        raise errors.InvalidValue(what="query parameter", value=name[:40], must=must)


def _fields(dependant: Dependant) -> list[Any]:
    return [*dependant.query_params, *(field for inner in dependant.dependencies for field in _fields(inner))]
