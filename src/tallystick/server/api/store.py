"""What is served."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server import reading
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import service_of
from tallystick.server.http.page_response import Page

router = APIRouter(tags=["read"])


@router.get("/v1/store", responses=shapes.answers(200, shapes.ANY_OBJECT, 401, 403, 429, 503))
async def read_store(request: Request, who: Reader) -> Response:
    """Which engine and profile, how far the log goes, and whether it can be written or is damaged."""
    return await Page.of(service_of(request), reading.store, who)
