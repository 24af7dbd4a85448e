"""A projection: which events it takes, under which key, and how each event changes the state of its key.

    class Balance(Projection):
        types = ("order.placed", "order.paid")
        key = "payload.customer_id"

        def initial(self):
            return {"open": 0}

        def apply(self, state, event):
            ...

A state is plain JSON. It depends only on the state before and the event, not on the order of keys.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event
from tallystick.projections import merged_order
from tallystick.store.views import (
    ABSENT,
    BY_KIND,
    BY_PAYLOAD,
    BY_STREAM,
    KEY_CHARACTERS_MAX,
    ROWS,
    Definition,
    value_at,
)

BY_POSITION = "position"
BY_LAMPORT = "lamport"


class Upcasters(Protocol):
    """The part of a catalog that a definition needs."""

    def upcaster_digest(self, types: Any) -> bytes: ...


class Projection:
    """The base of every projection whose rows are states. See docs/projections.md.

    - `types`: the event types it takes; every runner selects by them before it calls the projection.
    - `key`: "stream", "kind" (all streams of a kind in one row), or "payload.<path>": a text of 1 to 500 characters
      after upcasting.
    - `order`: "position", or "lamport" where events carry one.
    - `name` is the class's name unless it is given; `version` is raised whenever `apply` changes.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    types: ClassVar[tuple[str, ...]] = ()
    key: ClassVar[str] = BY_STREAM
    order: ClassVar[str] = BY_POSITION
    kind: ClassVar[str] = ROWS

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def initial(self) -> Any:
        """The state of a key before its first event."""
        raise NotImplementedError

    def apply(self, state: Any, event: Event) -> Any:
        """The state after an event. `event.data` is None if the event was erased."""
        raise NotImplementedError

    def prepare(self, store: Any, *, until: int) -> None:
        """Look up what the events do not say. Every runner calls this before it folds events up to `until`."""

    def mark(self, event: Event) -> bytes | None:
        """The mark of an event in the order "lamport"; None if it has no lamport.

        Bytes after the first `merged_order.MARK_BYTES` identify what the fold depends on besides the events: rows with
        other bytes there are folded again.
        """
        return merged_order.mark_of(event)


NO_STATE = "apply() returned nothing; it must return the next state"


def check(projection: Any) -> None:
    """Refuse a projection that no runner could run."""
    name = getattr(projection, "name", type(projection).__name__)
    if reason := _wrong(projection):
        raise errors.ProjectionInvalid(name=str(names.display(name)), reason=reason)
    names.check_label("projection name", name)
    for type_ in projection.types:
        names.check_type(type_)


def _wrong(projection: Any) -> str | None:
    if type(projection.types) not in (tuple, list) or not projection.types:
        return "`types` must name at least one event type"
    if type(projection.version) is not int or not 1 <= projection.version <= names.VERSION_MAX:
        return "`version` must be a number from 1 on"
    if projection.order not in (BY_POSITION, BY_LAMPORT):
        return f"`order` must be {BY_POSITION!r} or {BY_LAMPORT!r}"
    if not getattr(projection, "measures", True):
        return "a summary has at least one measure, such as `orders = count()`"
    key = projection.key
    if key not in (BY_STREAM, BY_KIND) and not (
        isinstance(key, str) and key.startswith(BY_PAYLOAD) and all(key.split("."))
    ):
        return f"`key` must be {BY_STREAM!r}, {BY_KIND!r} or {BY_PAYLOAD + '<path>'!r}"
    return None


def definition(projection: Any, catalog: Upcasters) -> Definition:
    """What the rows of a projection depend on, besides the events."""
    return Definition(
        kind=projection.kind,
        version=projection.version,
        key=projection.key,
        order=projection.order,
        types=sorted(set(projection.types)),
        upcasters=catalog.upcaster_digest(projection.types).hex(),
    )


def key_of(projection: Any, event: Event) -> str | None:
    """The key of an event; None if it was in a payload that is erased. A key that is not a text is refused by name."""
    if projection.key == BY_STREAM:
        return event.stream
    if projection.key == BY_KIND:
        return str(value_at(BY_KIND, event))
    if event.payload is None:
        return None
    key = value_at(projection.key, event)
    if type(key) is str and 0 < len(key) <= KEY_CHARACTERS_MAX:
        return key
    found = "not there" if key is ABSENT else f"a text of {len(key)} characters" if type(key) is str else _kind(key)
    raise errors.ProjectionKeyInvalid(
        name=projection.name,
        key=projection.key,
        stream=event.stream,
        seq=event.seq,
        position=event.position,
        found=found,
    )


def _kind(value: Any) -> str:
    """The kind of a value, without the value."""
    kinds = {dict: "an object", list: "a list", bool: "a truth value", int: "a number", float: "a number"}
    return "null" if value is None else kinds.get(type(value), type(value).__name__)
