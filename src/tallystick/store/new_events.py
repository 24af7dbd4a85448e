"""The events that users hand in: each is a NewEvent, or an instance of a model that the catalog has a type for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tallystick import errors
from tallystick.event.model import Appendable, NewEvent, is_model


class Names(Protocol):
    """What is needed of a catalog."""

    def name_of(self, model: Any) -> tuple[str, int]: ...


def listed(events: Appendable | Iterable[Appendable]) -> list[Appendable]:
    """One event or several as a list. A model can be iterated, but is one event."""
    if type(events) is list:
        return list(events)
    is_one = type(events) is NewEvent or not isinstance(events, Iterable) or is_model(type(events))
    return [events] if is_one else list(events)  # type: ignore[list-item, arg-type]


def checked(events: Sequence[Appendable], catalog: Names) -> Sequence[NewEvent]:
    """The events as NewEvents, the same list if all are; anything else is refused by name."""
    is_list = isinstance(events, (list, tuple))
    found = set(map(type, events)) if is_list else {type(events)}
    if is_list and found == {NewEvent}:
        return events  # type: ignore[return-value]
    if not (is_list and found and all(kind is NewEvent or is_model(kind) for kind in found)):
        given = ", ".join(sorted(kind.__name__ for kind in found)) or "nothing"
        raise errors.InvalidValue(what="events", value=given, must="a list of at least one NewEvent, or of models")
    return [_named(event, catalog) for event in events]


def _named(event: Any, catalog: Names) -> NewEvent:
    if type(event) is NewEvent:
        return event
    type_, version = catalog.name_of(type(event))
    return NewEvent(type_, event, version=version, tags=tags_of(event))


def tags_of(model: Any) -> Sequence[str]:
    """The tags of an event with this payload: those that the method `tags` of its model returns, if it has one."""
    tags = getattr(type(model), "tags", None)
    return tags(model) if callable(tags) else ()
