"""Reading the log in order of position, and one event by its id."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallystick.server import reading
from tallystick.server.access import Reader
from tallystick.server.api import shapes
from tallystick.server.api.parameters import LIMIT, After, Chosen, Id, Limit, MaybePosition, service_of
from tallystick.server.http.page_response import Page
from tallystick.server.reading import Asked

router = APIRouter(tags=["read"])


@router.get("/v1/events", responses=shapes.answers(200, shapes.EVENTS, 401, 403, 404, 409, 410, 422, 429, 501, 503))
async def read_events(
    request: Request,
    who: Reader,
    selection: Chosen,
    after: After = "0",
    until: MaybePosition = None,
    limit: Limit = LIMIT,
    over_holes: bool = False,
    over_pruned: bool = False,
) -> Response:
    """A page of the events behind `after`, in order of position. Go on with `after` set to `cursor`."""
    asked = Asked(
        after=after,
        until=until,
        limit=limit,
        selection=selection,
        over_holes=over_holes,
        over_pruned=over_pruned,
    )
    return await Page.of(service_of(request), reading.events, who, asked)


@router.get("/v1/events/{id}", responses=shapes.answers(200, shapes.EVENT, 401, 403, 404, 410, 422, 429, 501, 503))
async def read_event(id: Id, request: Request, who: Reader) -> Response:
    """The event with this id."""
    return await Page.of(service_of(request), reading.event, who, id)
