"""Queries: the events of any stream that a decision depends on, by their types and tags.

    match(types=["student.subscribed"], tags=["course:c1"]) | match(tags=["student:s7"])

An item matches an event that has one of its types (any type, if it names none) and all of its tags. A query matches an
event that one of its items matches. `match()` matches every event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tallystick import errors
from tallystick.event import limits, names, tags

ITEMS_MAX = 64
TYPES_MAX = 64


class Subject(NamedTuple):
    """What a query asks of an event."""

    type: str
    tags: frozenset[str]
    org: str | None


def subject(type_: str, meta: bytes) -> Subject:
    """What a query asks of an event with this type and stored meta."""
    found = tags.tagged(meta)
    return Subject(type_, frozenset(found.tags), found.org)


class Item(msgspec.Struct, frozen=True):
    """One alternative of a query. `types` and `tags` are sorted and without repeats."""

    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def matches(self, event: Subject) -> bool:
        """Whether an event is among the matching ones."""
        return (not self.types or event.type in self.types) and event.tags.issuperset(self.tags)


class Query(msgspec.Struct, frozen=True):
    """At least one item, at most 64. Combine queries with `|`."""

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        if not self.items:
            raise errors.InvalidValue(what="query", value="no items", must="at least one; `match()` is every event")
        if len(self.items) > ITEMS_MAX:
            raise errors.TooLarge(what="the query", size=len(self.items), unit="items", limit=ITEMS_MAX)

    def __or__(self, other: Query) -> Query:
        return Query(tuple(dict.fromkeys((*self.items, *other.items))))

    @property
    def is_everything(self) -> bool:
        """Whether every event matches."""
        return any(not item.types and not item.tags for item in self.items)

    def matches(self, event: Subject) -> bool:
        """Whether an event matches."""
        return any(item.matches(event) for item in self.items)


def match(types: Iterable[str] = (), tags: Iterable[str] = ()) -> Query:
    """A query of one item: events that have one of the types, or any if none is given, and all of the tags."""
    return Query((Item(_types(types), _tags(tags)),))


def from_wire(given: object) -> Query:
    """The query that a list of `{"types": [...], "tags": [...]}` describes."""
    if not isinstance(given, list):
        raise errors.InvalidValue(what="items of a query", value=names.display(given), must="a list of objects")
    return Query(tuple(_item(item) for item in given))


def to_wire(query: Query) -> list[dict[str, list[str]]]:
    """The items of a query as plain JSON objects."""
    return [{"types": list(item.types), "tags": list(item.tags)} for item in query.items]


def _item(given: Any) -> Item:
    if not isinstance(given, dict) or not given.keys() <= {"types", "tags"}:
        must = 'an object with "types" and "tags", which are lists of texts'
        raise errors.InvalidValue(what="item of a query", value=names.display(given), must=must)
    return Item(_types(given.get("types", ())), _tags(given.get("tags", ())))


def _types(given: object) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise errors.InvalidValue(what="types", value=names.display(given), must="a list of event types")
    found = tuple(sorted({names.check_type(each) for each in given}))
    if len(found) > TYPES_MAX:
        raise errors.TooLarge(what="an item of the query", size=len(found), unit="types", limit=TYPES_MAX)
    return found


def _tags(given: object) -> tuple[str, ...]:
    return tuple(tags.normal(given))


class Marker(msgspec.Struct, frozen=True):
    """What a consultation saw of a query: everything up to `after`, and `beyond` matching events past it.

    `after` is a cursor, which another store or history refuses. A plain number, which `read` or `head` returned, is
    accepted too; one taken from an append is not sound, because events below it may not be visible yet.
    """

    query: Query
    after: str | int = 0
    beyond: int = 0

    def __post_init__(self) -> None:
        if type(self.query) is not Query:
            raise errors.InvalidValue(what="query of a marker", value=names.display(self.query), must="a Query")
        if type(self.beyond) is not int or not 0 <= self.beyond <= limits.INT_MAX:
            raise errors.InvalidValue(what="beyond", value=names.display(self.beyond), must="a number from 0 on")


class Condition(msgspec.Struct, frozen=True):
    """What an engine judges: at most `beyond` events past the position `after` match. `org` limits it to one tenant."""

    query: Query
    after: int = 0
    beyond: int = 0
    org: str | None = None

    def matches(self, event: Subject) -> bool:
        """Whether an event past `after` counts."""
        return (self.org is None or event.org == self.org) and self.query.matches(event)
