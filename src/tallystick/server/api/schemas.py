"""The catalog of event types as JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tallystick.event import schema
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import service_of
from tallystick.server.http.page_response import Page
from tallystick.server.service import Service

router = APIRouter(tags=["read"])


@router.get("/v1/schemas", responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 429, 503))
async def read_schemas(request: Request, who: Reader) -> Response:
    """Every type of the catalog with the JSON Schema of each version, as `tally schema export` writes it."""
    return await Page.of(service_of(request), _export)


def _export(service: Service) -> bytes:
    catalog: Any = service.store.catalog
    return msgspec.json.encode(schema.export(catalog))
