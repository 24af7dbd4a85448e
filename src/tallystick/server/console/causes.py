"""The causes of an event, found by id, and its consequences, found by scanning a bounded part of the log after it.

`meta.causation_id` names the cause of an event. No index has the other direction, so consequences are found by reading
the positions after the event. The same scan finds the consequences of the consequences.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import ids
from tallystick.event.model import Event
from tallystick.store.store import Store

CAUSES_MAX = 12
NODES_MAX = 60
REACH = 5_000
REACH_MAX = 80_000
_PAGE = 2_000
_KEY = "causation_id"


class CauseGraph(msgspec.Struct):
    """An event with its causes and consequences, in columns of generations. Edges go from cause to consequence."""

    event: Event
    events: dict[str, Event] = {}
    missing: list[str] = []
    depth: dict[str, int] = {}
    edges: list[tuple[str, str]] = []
    reached: int = 0
    head: int = 0
    full: bool = False

    @property
    def columns(self) -> list[list[str]]:
        """The ids of each generation, the earliest first."""
        low, high = min(self.depth.values()), max(self.depth.values())
        return [[id_ for id_, at in self.depth.items() if at == level] for level in range(low, high + 1)]


def find_causes(store: Store, event: Event, *, reach: int = REACH) -> CauseGraph:
    """The causes of an event, and its consequences within `reach` positions after it."""
    own = ids.to_text(event.id)
    found = CauseGraph(event=event, events={own: event}, depth={own: 0}, head=store.head())
    _find_causes(store, found, own)
    _find_consequences(store, found, own, min(max(reach, 1), REACH_MAX))
    return found


def cause_of(event: Event) -> str | None:
    """The id that an event names as its cause."""
    if _KEY.encode() not in event.meta:
        return None
    named = event.metadata.get(_KEY)
    return named if isinstance(named, str) else None


def _find_causes(store: Store, found: CauseGraph, own: str) -> None:
    effect = own
    for depth in range(1, CAUSES_MAX + 1):
        cause = cause_of(found.events[effect])
        if cause is None or cause in found.depth:
            return
        found.depth[cause] = -depth
        found.edges.append((cause, effect))
        event = _find(store, cause)
        if event is None:
            found.missing.append(cause)
            return
        found.events[cause] = event
        effect = cause


def _find(store: Store, id_: str) -> Event | None:
    try:
        return store.find(id_)
    except (errors.InvalidInput, errors.Damaged):  # a cause outside of this store may have any id
        return None


def _find_consequences(store: Store, found: CauseGraph, own: str, reach: int) -> None:
    after, until = found.event.position, min(found.event.position + reach, found.head)
    begun = {own}
    for page in store.pages(after=after, until=until, limit=_PAGE, over_holes=True, over_pruned=True):
        for event in page.events:
            cause = cause_of(event)
            if cause in begun:
                if len(found.depth) >= NODES_MAX:
                    found.reached, found.full = event.position - 1, True
                    return
                _add(found, begun, str(cause), event)
        after = page.through
    found.reached = after


def _add(found: CauseGraph, begun: set[str], cause: str, event: Event) -> None:
    id_ = ids.to_text(event.id)
    begun.add(id_)
    found.events[id_] = event
    found.depth.setdefault(id_, found.depth[cause] + 1)
    found.edges.append((cause, id_))


def says(found: CauseGraph) -> str:
    """How far the scan for consequences went, in words."""
    if found.full:
        return f"Stopped at {NODES_MAX} events, at position {found.reached:,}. Open one of them to continue from there."
    if found.reached >= found.head:
        return f"Everything after this event was scanned, up to position {found.head:,}."
    after = found.reached - found.event.position
    return f"Scanned {after:,} positions after this event, up to {found.reached:,} of {found.head:,}."


def drawing(found: CauseGraph, href: Any) -> dict[str, Any]:
    """The graph as the script takes it. `href` makes the address of the page of an event."""
    nodes: dict[str, Any] = {}
    for id_ in found.depth:
        event = found.events.get(id_)
        if event is None:
            nodes[id_] = {
                "name": "not in this store",
                "fact": id_[:24],
                "state": "missing",
                "title": f"{id_}: not in this store",
            }
            continue
        title = f"{event.type}, {event.stream} at {event.seq}, position {event.position}"
        state = "self" if event.id == found.event.id else ""
        place = f"{event.stream} ·{event.seq}"
        nodes[id_] = {"name": event.type, "fact": place, "state": state, "title": title, "href": href(event)}
    edges = [{"source": source, "target": target} for source, target in found.edges]
    reach = found.reached - found.event.position
    more = not found.full and found.reached < found.head and reach < REACH_MAX
    return {"columns": found.columns, "nodes": nodes, "edges": edges, "says": says(found), "more": more}
