"""What is served: the store, and the catalog of event types as JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.event import schema
from tallystick.server.access import Principal, Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import service_of
from tallystick.server.http.page_response import Page
from tallystick.server.service import Service

router = APIRouter(tags=["read"])


@router.get("/v1/store", responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 429, 503))
async def read_store(request: Request, who: Reader) -> Response:
    """Which engine and profile, how far the log goes, and whether it can be written or is damaged."""
    return await Page.of(service_of(request), _store, who)


@router.get("/v1/schemas", responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 429, 503))
async def read_schemas(request: Request, who: Reader) -> Response:
    """Every type of the catalog with the JSON Schema of each version, as `tally schema export` writes it."""
    return await Page.of(service_of(request), _export)


def _export(service: Service) -> bytes:
    catalog: Any = service.store.catalog
    return msgspec.json.encode(schema.export(catalog))


def _store(service: Service, principal: Principal) -> bytes:
    """What is served, as JSON: which engine, how far, whether it can be written, and what is damaged."""
    log = service.store.log
    told: dict[str, Any] = {
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
        told["holes"] = [
            {"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()
        ]
    return msgspec.json.encode(told)
