"""The audit trail: what was done to the store itself."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server import reading
from tallystick.server.access import Admin
from tallystick.server.api import shapes
from tallystick.server.api.parameters import LIMIT, After, Label, Limit, Time, service_of
from tallystick.server.http.page_response import Page
from tallystick.server.reading import Asked
from tallystick.store.selection import select

router = APIRouter(tags=["audit"])


@router.get("/v1/audit", responses=shapes.answers(200, shapes.EVENTS, 401, 403, 404, 409, 422, 429, 501, 503))
async def read_audit(
    request: Request,
    who: Admin,
    after: After = "0",
    limit: Limit = LIMIT,
    org: Label = None,
    actor: Label = None,
    time_from: Time = None,
    time_until: Time = None,
) -> Response:
    """The control facts behind `after`: settings, tokens, snapshots, and whatever removed or sealed anything."""
    selection = select(org=org, time_from=time_from, time_until=time_until)
    asked = Asked(after=after, limit=limit, selection=selection)
    return await Page.of(service_of(request), reading.audit, asked, actor=actor)
