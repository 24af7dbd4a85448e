"""What matches a query, found by the index of tags and the indexes of types: the log is not scanned for it.

An item with tags walks the postings of its rarest tag, type by type: in each type they are in order of position. An
item with types alone walks the events of each type, and what was pruned of it. No walk goes further than the last
position that is wanted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tallystick import errors
from tallystick.engines.sqlite import statements
from tallystick.engines.sqlite.rows import events_of
from tallystick.event import limits
from tallystick.event.model import Event
from tallystick.store.query import Condition, Item, Query, match, subject
from tallystick.store.selection import Selection

_FEW = 64  # postings that are counted at first, to find the rarest tag of an item
_FILTERED = 500  # events that are read at once, if a selection has conditions besides its query
_PLACE = "/* and it is selected */"
_HAS_ORG = " AND org = :org"


class _Walk(NamedTuple):
    """A statement that gives positions in ascending order. With several `tags`, the rarest has to be chosen."""

    name: str
    values: dict[str, Any]
    tags: tuple[str, ...] = ()


def positions(
    connection: sqlite3.Connection, condition: Condition, *, until: int = limits.INT_MAX, limit: int, pruned: bool
) -> list[int]:
    """The first positions past `condition.after` that match. Without `pruned`, only those with tags may be pruned."""
    found: list[int] = []
    for walk in _walks(connection, condition.query, pruned=pruned):
        bounds = {"after": condition.after, "until": until, "limit": limit, "org": condition.org}
        if walk.tags and not _choose(connection, walk, bounds):
            continue
        query = _statement(walk.name, max(len(walk.tags) - 1, 0), condition.org is not None)
        some = [position for (position,) in connection.execute(query, walk.values | bounds)]
        if any(type(position) is not int for position in some):
            raise errors.Damaged(first=0, last=0, reason="a position in an index is not what was written")
        found = sorted({*found, *some})[:limit]
        if len(found) == limit:
            until = found[-1]
    return found


def _walks(connection: sqlite3.Connection, query: Query, *, pruned: bool) -> Iterator[_Walk]:
    for item in match().items if query.is_everything else query.items:
        if item.tags:
            for type_ in item.types or _types(connection, item.tags[0]):
                yield _Walk("find_tagged", {"type": type_}, item.tags)
            continue
        names = ("find_typed", "find_pruned_typed") if item.types else ("find_any", "find_pruned")
        wanted: list[str | None] = [*item.types] or [None]
        yield from (_Walk(names[0], {"type": type_}) for type_ in wanted)
        if pruned:  # of what an older format pruned, the type is not known
            yield from (_Walk(names[1], {"type": type_}) for type_ in {*wanted, None})


def _types(connection: sqlite3.Connection, tag: str) -> Iterator[str]:
    """The types of the events that have a tag."""
    type_ = ""
    while row := connection.execute(statements.named("find_next_type"), (tag, type_)).fetchone():
        (type_,) = row
        yield type_


def _choose(connection: sqlite3.Connection, walk: _Walk, bounds: dict[str, Any]) -> bool:
    """Choose the tag with the fewest postings in the range, in a time that depends on them. False if one has none."""
    rarest, most = walk.tags[0], _FEW
    while len(walk.tags) > 1:
        counts = {tag: _count(connection, walk.values | bounds | {"tag": tag, "most": most}) for tag in walk.tags}
        rarest = min(counts, key=counts.__getitem__)
        if counts[rarest] == 0:
            return False
        if counts[rarest] < most:
            break
        most *= 8
    others = [tag for tag in walk.tags if tag != rarest]
    walk.values.update({f"tag{number}": tag for number, tag in enumerate(others)}, tag=rarest)
    return True


def _count(connection: sqlite3.Connection, values: dict[str, Any]) -> int:
    found: int = connection.execute(statements.named("count_tagged"), values).fetchone()[0]
    return found


@lru_cache(maxsize=256)
def _statement(name: str, other_tags: int, of_org: bool) -> str:
    also = "".join(
        f" AND EXISTS (SELECT 1 FROM event_tags AS also WHERE also.tag = :tag{number:d}"
        " AND also.type = event_tags.type AND also.position = event_tags.position)"
        for number in range(other_tags)
    )
    return statements.named(name).replace(_PLACE, also + (_HAS_ORG if of_org else ""))


def events(
    connection: sqlite3.Connection, selection: Selection, query: Query, *, first: int, until: int, limit: int
) -> list[Event]:
    """The selected events between two positions, at most `limit`. An index that contradicts them is damage."""
    items = _of_types(query, selection.types)
    if not items:
        return []
    narrowed, org = Query(items), selection.org
    rest = msgspec.structs.replace(selection, query=None, org=None, types=frozenset())
    size = limit if rest.is_everything else max(limit, _FILTERED)
    found: list[Event] = []
    while len(found) < limit and first <= until:
        condition = Condition(narrowed, first - 1, org=org)
        places = positions(connection, condition, until=until, limit=size, pruned=False)
        matching = _events_at(connection, places)
        _require_matching(matching, condition)
        found += matching if rest.is_everything else filter(rest.predicate(), matching)
        first = places[-1] + 1 if len(places) == size else until + 1
    return found[:limit]


def _of_types(query: Query, types: frozenset[str]) -> tuple[Item, ...]:
    """The items of a query for events of these types; of any, if none are given."""
    if not types:
        return query.items
    named = [(types.intersection(item.types) if item.types else types, item.tags) for item in query.items]
    return tuple(Item(tuple(sorted(some)), tags) for some, tags in named if some)


def _events_at(connection: sqlite3.Connection, places: list[int]) -> list[Event]:
    """The events at these positions. One that is missing must have been pruned."""
    wanted = (json.dumps(places),)
    found = events_of(connection.execute(statements.named("events_at"), wanted))
    if len(found) < len(places):
        (pruned,) = connection.execute(statements.named("pruned_at"), wanted).fetchone()
        if len(found) + pruned < len(places):
            reason = "the index has events that are missing, and were not pruned"
            raise errors.Damaged(first=0, last=0, reason=reason)
    return found


def _require_matching(found: list[Event], condition: Condition) -> None:
    for event in found:
        if not condition.matches(subject(event.type, event.meta)):
            reason = f"an index says of position {event.position} what its event does not say"
            raise errors.Damaged(first=0, last=0, reason=reason)
