"""Consultations, and the conditions of appends, for a caller: both see no other org than the caller's own.

A caller bound to an org names a tag in every item. A condition without tags would make every other append wait, of all
orgs, and a consultation without tags would scan what all orgs recorded.
"""

from __future__ import annotations

from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tallystick import errors
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.server.access import Need, Principal
from tallystick.server.api.log_page import EventOut, EventQuery, read_page, size_of, visible
from tallystick.server.api.parameters import Seq, Tags
from tallystick.server.http import bodies
from tallystick.server.http.page_response import PageResponse
from tallystick.server.http.route import HttpRequest, Responses, Routes
from tallystick.server.service import Service
from tallystick.store import query
from tallystick.store.query import Condition, Marker, Query
from tallystick.store.selection import Selection

EVENTS_MAX = 10_000

routes = Routes("consult")


# --- bodies: the store checks the values, so that every way in refuses the same ---------------------------------------


class ItemBody(msgspec.Struct, forbid_unknown_fields=True):
    """Events that have one of the types, or any type if none is given, and all of the tags."""

    types: Annotated[list[str], Meta(extra_json_schema={"maxItems": query.TYPES_MAX})] = []
    tags: Tags = []


Items = Annotated[
    list[ItemBody],
    Meta(
        description="The alternatives. An event matches if one of them matches.",
        extra_json_schema={"minItems": 1, "maxItems": query.ITEMS_MAX},
    ),
]
Since = Annotated[
    int | str,
    Meta(description="A `cursor`, or `through` of a page that was read. A position from an append is not sound."),
]


class ConditionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Append only if at most `beyond` events past `after` match. The `marker` of a consultation is one of these."""

    items: Items
    after: Since = 0
    beyond: Annotated[Seq, Meta(description="How many matching events past `after` the consultation saw.")] = 0


class ConsultBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which events a decision depends on."""

    items: Items
    after: Since = 0
    over_pruned: Annotated[bool, Meta(description="Accept that matching events were pruned. By default: 410.")] = False


class ConsultationOut(msgspec.Struct):
    """All matching events, and the marker that says how far this is true."""

    events: list[EventOut]
    marker: Annotated[ConditionBody, Meta(description="Send it as `unless` of the append that depends on the events.")]


async def condition_of(service: Service, principal: Principal, body: ConditionBody) -> Condition:
    """The condition of an append, as the engine takes it.

    The marker is looked up here: the thread that commits everybody's appends must not wait for what one caller sent.
    """
    if body.beyond > EVENTS_MAX:
        raise errors.InvalidValue(what="beyond", value=body.beyond, must=f"at most {EVENTS_MAX}, as in a consultation")
    marker = Marker(_query(body.items, principal), body.after, body.beyond)
    return await service.in_thread(service.store.conditions.of, marker, principal.org)


def _query(items: list[ItemBody], principal: Principal) -> Query:
    if principal.org is not None:
        for number, item in enumerate(items):
            if not item.tags:
                raise errors.UntaggedItem(number=number)
    return query.from_wire(msgspec.to_builtins(items))


def hide_others(problem: errors.ConditionFailed) -> NoReturn:
    """Raise the error without the position: an event may be of the caller's org and still not for the caller."""
    raise errors.ConditionFailed(query=problem.query, found="an event of the org") from None


# --- the route --------------------------------------------------------------------------------------------------------


@routes.post(
    "/v1/consult",
    Need.READ,
    Responses(ConsultationOut, (401, 403, 408, 409, 410, 413, 415, 422, 429, 501, 503)),
    body=ConsultBody,
    no_query="the items are in the body",
)
async def consult(request: HttpRequest) -> Response:
    """All events that match, in order of position, with the marker for an append that depends on them.

    It changes nothing. If too many match, it is refused and returns no part of them.
    """
    length = bodies.expect_json(request)
    with request.service.reads.enter() as admission:
        body, _ = await bodies.read(request, admission, length, ConsultBody)
    return await PageResponse.of(request.service, _consult, request.principal, body)


def _consult(service: Service, principal: Principal, body: ConsultBody) -> bytes:
    """A consultation as JSON. What matches is read page by page first, because it may be too much."""
    store, wanted = service.store, _query(body.items, principal)
    store.conditions.require_offered()
    begin = store.after(body.after)
    events, through = _bounded(service, principal, wanted, begin)
    if store.floor() > begin and not body.over_pruned:
        through = begin  # something was pruned, and only the consultation knows whether it matches
    rest = store.consult(wanted, after=through, org=principal.org, over_pruned=body.over_pruned)
    found = [event for event in events if event.position <= through] + visible(service, principal, rest.events)
    after, beyond = rest.marker.after, rest.marker.beyond
    marker = msgspec.json.encode({"items": query.to_wire(wanted), "after": after, "beyond": beyond}).decode()
    return f'{{"events":[{",".join(map(line, found))}],"marker":{marker}}}'.encode()


def _bounded(service: Service, principal: Principal, wanted: Query, begin: int) -> tuple[list[Event], int]:
    """The matching events up to the head, and the head. More than a response may have is refused."""
    found: list[Event] = []
    after, room = begin, service.limits.page_bytes_max
    while True:
        left = EVENTS_MAX + 1 - len(found)
        asked = EventQuery(after=after, limit=left, selection=Selection(query=wanted), over_pruned=True)
        some, through, _ = read_page(service, principal, asked, bytes_max=room)
        found += some
        room -= sum(map(size_of, some))
        if len(found) > EVENTS_MAX or room <= 0:
            raise errors.ConsultationTooLarge(events=EVENTS_MAX, bytes=service.limits.page_bytes_max)
        if through <= after or through >= service.store.head():
            return found, through
        after = through
