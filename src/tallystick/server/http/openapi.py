"""The OpenAPI document of the routes. Its schemas are generated from the structs that the handlers read and return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from tallystick.server.http import problems
from tallystick.server.http.query import REQUIRED, Parameter
from tallystick.server.http.route import Description, Responses, Route

TITLE = "Tallystick"
DESCRIPTION = "An event store over HTTP. Errors are application/problem+json; `code` tells them apart."
WRONG_HOST = 421  # every route refuses a request for another host

Schemas = dict[Any, dict[str, Any]]


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document of these routes; one without a description is left out."""
    described = [(route, route.description) for route in routes if route.description is not None]
    types = [kind for route, description in described for kind in _types(route, description)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route, description in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, description, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "description": DESCRIPTION, "version": "1"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _types(route: Route, description: Description) -> list[Any]:
    parameters = [one.annotation for one in route.parameters.all]
    bodies = [] if description.body is None else [description.body]
    return [*parameters, *bodies, description.responses.shape, problems.ProblemDetails]


def _operation(route: Route, description: Description, schemas: Schemas) -> dict[str, Any]:
    name = route.handler.__name__
    found: dict[str, Any] = {
        "tags": [description.tag],
        "summary": name.replace("_", " ").title(),
        "description": inspect.cleandoc(route.handler.__doc__ or ""),
        "operationId": f"{re.sub(r'[^A-Za-z0-9_]', '_', name + route.path)}_{route.method.lower()}",
        "parameters": [*(_parameter(one, schemas) for one in route.parameters.all), *description.headers],
        "responses": _responses(description.responses, schemas),
    }
    if description.body is not None:
        found["requestBody"] = {"required": True, "content": _content("application/json", schemas[description.body])}
    return found


def _parameter(one: Parameter, schemas: Schemas) -> dict[str, Any]:
    schema = dict(schemas[one.annotation])
    if one.default is not REQUIRED and one.default is not None:
        schema["default"] = one.default
    found = {"name": one.name, "in": one.place, "required": one.default is REQUIRED, "schema": schema}
    return found | ({"description": schema["description"]} if "description" in schema else {})


def _responses(responses: Responses, schemas: Schemas) -> dict[str, Any]:
    refused = {"description": "refused", "content": _content(problems.MEDIA_TYPE, schemas[problems.ProblemDetails])}
    found = {str(status): refused for status in sorted({*responses.refusals, WRONG_HOST})}
    for status in responses.statuses:
        found[str(status)] = {"description": "done", "content": _content(responses.media, schemas[responses.shape])}
    return found


def _content(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema}}
