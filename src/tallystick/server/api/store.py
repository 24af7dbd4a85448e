"""What is served: the store, and the catalog of event types as JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tallystick.event import schema
from tallystick.server.access import Need, Principal
from tallystick.server.http.page_response import PageResponse
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.service import Service

ANSWER = Responses(dict[str, Any], (401, 403, 429, 503))

routes = Routes("read")


@routes.get("/v1/store", Need.READ, ANSWER)
async def read_store(request: HttpRequest) -> Response:
    """The engine and profile, the head, whether the store can be written to, and whether it is damaged."""
    return await PageResponse.of(request.service, _store, request.principal)


@routes.get("/v1/schemas", Need.READ, ANSWER)
async def read_schemas(request: HttpRequest) -> Response:
    """Every type of the catalog with the JSON Schema of each version, as `tally schema export` writes it."""
    return await PageResponse.of(request.service, _schemas)


def _schemas(service: Service) -> bytes:
    catalog: Any = service.store.catalog
    return msgspec.json.encode(schema.export(catalog))


def _store(service: Service, principal: Principal) -> bytes:
    log = service.store.log
    found: dict[str, Any] = {
        "engine": log.engine,
        "profile": log.profile,
        "store": log.store_id.hex(),
        "head": service.store.head(),
        "floor": service.store.floor(),
        "readonly": service.is_readonly,
        "capabilities": sorted(log.capabilities),
        "reducers": sorted(service.reducers),
        "projections": sorted(service.projections),
    }
    if principal.org is None:
        found["holes"] = [
            {"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()
        ]
    return msgspec.json.encode(found)
