"""Following the log live, by server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from tallystick.server import following
from tallystick.server.access import Need, Reader, authorise
from tallystick.server.api import shapes
from tallystick.server.api.parameters import Chosen, MaybeAfter, service_of
from tallystick.server.reading import Asked

router = APIRouter(tags=["read"])


@router.get(
    "/v1/follow",
    responses=shapes.answers(
        200, {"type": "string"}, 401, 403, 404, 409, 410, 422, 429, 501, 503, media="text/event-stream"
    ),
)
async def follow(
    request: Request,
    who: Reader,
    selection: Chosen,
    after: MaybeAfter = None,
    over_pruned: bool = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Events as they come, each with its cursor as id. Resumes from Last-Event-ID, else begins behind `after`.

    Without either it begins now.
    """
    begin = after if last_event_id is None else last_event_id
    service = service_of(request)
    asked = Asked(after=0 if begin is None else begin, selection=selection, over_pruned=over_pruned)
    again = partial(authorise, service, request.scope, Need.READ)
    return await following.follow(service, who, asked, from_now=begin is None, again=again)
