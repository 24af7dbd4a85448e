"""Reading the log in order of position, one event by its id, and the audit trail."""

from __future__ import annotations

from itertools import islice

from starlette.responses import Response

from tallystick import errors
from tallystick.event.line import line
from tallystick.server.access import Need, Principal
from tallystick.server.api.log_page import EventOut, EventPage, EventQuery, cursor_at, read_page
from tallystick.server.api.parameters import LIMIT, After, Filters, Id, Label, Limit, Position, Time
from tallystick.server.http.page_response import PageResponse
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.service import Service
from tallystick.store import control
from tallystick.store.selection import select

routes = Routes("read")
audit_routes = Routes("audit")


@routes.get("/v1/events", Need.READ, Responses(EventPage, (401, 403, 404, 409, 410, 422, 429, 501, 503)))
async def read_events(
    request: HttpRequest,
    filters: Filters,
    after: After = "0",
    until: Position | None = None,
    limit: Limit = LIMIT,
    over_holes: bool = False,
    over_pruned: bool = False,
) -> Response:
    """A page of the events after `after`, in order of position. Continue with `after` set to `cursor`."""
    query = EventQuery(
        after=after,
        until=until,
        limit=limit,
        selection=filters.selection,
        over_holes=over_holes,
        over_pruned=over_pruned,
    )
    return await PageResponse.of(request.service, _events, request.principal, query)


@routes.get("/v1/events/{id}", Need.READ, Responses(EventOut, (401, 403, 404, 410, 422, 429, 501, 503)))
async def read_event(request: HttpRequest, id: Id) -> Response:
    """The event with this id."""
    return await PageResponse.of(request.service, _event, request.principal, id)


@audit_routes.get("/v1/audit", Need.ADMIN, Responses(EventPage, (401, 403, 404, 409, 422, 429, 501, 503)))
async def read_audit(
    request: HttpRequest,
    after: After = "0",
    limit: Limit = LIMIT,
    org: Label | None = None,
    actor: Label | None = None,
    time_from: Time | None = None,
    time_until: Time | None = None,
) -> Response:
    """The control facts after `after`: settings, tokens, snapshots, and everything that removed or sealed events."""
    selection = select(org=org, time_from=time_from, time_until=time_until)
    query = EventQuery(after=after, limit=limit, selection=selection)
    return await PageResponse.of(request.service, _audit, query, actor=actor)


def _events(service: Service, principal: Principal, query: EventQuery) -> bytes:
    """A page of the log as JSON: the events, how far the log was scanned, and which damaged ranges were skipped."""
    events, through, holes = read_page(service, principal, query, bytes_max=service.limits.page_bytes_max)
    cursor = cursor_at(service, query, events, through)
    skipped = ",".join(f'{{"first":{hole.first},"last":{hole.last}}}' for hole in holes)
    lines = ",".join(map(line, events))
    return f'{{"events":[{lines}],"through":{through},"cursor":"{cursor}","holes":[{skipped}]}}'.encode()


def _event(service: Service, principal: Principal, id: str) -> bytes:
    """One event as JSON."""
    found = service.visibility.find(principal, id)
    if found is None:
        raise errors.NothingHere()
    return line(found).encode()


def _audit(service: Service, query: EventQuery, *, actor: str | None) -> bytes:
    """A page of the control facts as JSON: what was done to the store, and by whom."""
    after = service.store.after(query.after)
    facts = control.audit(service.store.log, after=after, selection=query.selection)
    wanted = (fact for fact in facts if actor is None or fact.metadata.get("actor_id") == actor)
    found = list(islice(wanted, query.limit))
    through = max(found[-1].position if len(found) == query.limit else service.store.head(), after)
    cursor = cursor_at(service, query, found, through)
    return f'{{"events":[{",".join(map(line, found))}],"through":{through},"cursor":"{cursor}"}}'.encode()
