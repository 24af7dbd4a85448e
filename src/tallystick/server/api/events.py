"""Reading the log in order of position, one event by its id, and the audit trail."""

from __future__ import annotations

from itertools import islice

from fastapi import APIRouter, Request, Response

from tallystick import errors
from tallystick.event.line import line
from tallystick.server.access import Admin, Principal, Reader
from tallystick.server.api import shapes
from tallystick.server.api.log_page import Asked, cursor_at, page
from tallystick.server.api.parameters import LIMIT, After, Chosen, Id, Label, Limit, MaybePosition, Time, service_of
from tallystick.server.http.page_response import Page
from tallystick.server.service import Service
from tallystick.store import control
from tallystick.store.selection import select

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
    return await Page.of(service_of(request), _events, who, asked)


@router.get("/v1/events/{id}", responses=shapes.answers(200, shapes.EVENT, 401, 403, 404, 410, 422, 429, 501, 503))
async def read_event(id: Id, request: Request, who: Reader) -> Response:
    """The event with this id."""
    return await Page.of(service_of(request), _event, who, id)


trail = APIRouter(tags=["audit"])


@trail.get("/v1/audit", responses=shapes.answers(200, shapes.EVENTS, 401, 403, 404, 409, 422, 429, 501, 503))
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
    return await Page.of(service_of(request), _audit, asked, actor=actor)


def _events(service: Service, principal: Principal, asked: Asked) -> bytes:
    """A page of the log as JSON: the events, how far the log was looked at, and which damaged ranges were passed."""
    found, through, holes = page(service, principal, asked, bytes_max=service.limits.page_bytes_max)
    cursor = cursor_at(service, asked, found, through)
    told = ",".join(f'{{"first":{hole.first},"last":{hole.last}}}' for hole in holes)
    return (
        f'{{"events":[{",".join(map(line, found))}],"through":{through},"cursor":"{cursor}","holes":[{told}]}}'.encode()
    )


def _event(service: Service, principal: Principal, id: str) -> bytes:
    """One event as JSON."""
    found = service.visibility.find(principal, id)
    if found is None:
        raise errors.NothingHere()
    return line(found).encode()


def _audit(service: Service, asked: Asked, *, actor: str | None) -> bytes:
    """A page of the control facts as JSON: what was done to the store, by whom."""
    after = service.store.after(asked.after)
    facts = control.audit(service.store.log, after=after, selection=asked.selection)
    wanted = (fact for fact in facts if actor is None or fact.metadata.get("actor_id") == actor)
    found = list(islice(wanted, asked.limit))
    through = max(found[-1].position if len(found) == asked.limit else service.store.head(), after)
    cursor = cursor_at(service, asked, found, through)
    return f'{{"events":[{",".join(map(line, found))}],"through":{through},"cursor":"{cursor}"}}'.encode()
