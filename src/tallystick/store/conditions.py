"""Consultations and conditions: read what a decision depends on, and append only if nothing was added to it since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from tallystick import errors
from tallystick.event import names, profiles
from tallystick.event.model import Event
from tallystick.store import capabilities, cursors
from tallystick.store.events import EventLog
from tallystick.store.query import Condition, Marker, Query, to_wire

_CHECKED_MAX = 4096


class Consultation(msgspec.Struct, frozen=True):
    """The events that match a query, in order of position, and the marker that says how far this is true."""

    events: list[Event]
    marker: Marker


class Conditions:
    """Makes markers for one log, and turns those that come back into conditions.

    A marker of another history must be refused, or positions that a failover gave to other events would count as seen.
    A cursor that this handle made or checked is not looked up again: an engine refuses a handle whose history changed.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._known: OrderedDict[str, int] = OrderedDict()

    def require_offered(self) -> None:
        """Refuse a log without conditions, and one whose order is not that of its other nodes."""
        if profiles.named(self._log.profile).signed:
            raise errors.Forbidden(what="a condition on other events", profile=self._log.profile)
        if capabilities.CONDITIONS not in self._log.capabilities:
            raise errors.UnsupportedCapability(engine=self._log.engine, capability=capabilities.CONDITIONS)

    def consult(
        self,
        query: Query,
        upcast: Callable[[list[Event]], list[Event]],
        *,
        after: int,
        org: str | None,
        over_pruned: bool,
    ) -> Consultation:
        """See `Reader.consult`."""
        self.require_offered()
        if type(query) is not Query:
            raise errors.InvalidValue(what="query", value=names.display(query), must="a Query, as `match` makes it")
        found = self._log.consult(query, after=after, org=org, over_pruned=over_pruned)
        cursor = cursors.made(self._log, found.head)
        self._remember(cursor, found.head)
        return Consultation(upcast(found.events), Marker(query, cursor, found.beyond))

    def of(self, unless: Marker | Query | Condition, org: str | None) -> Condition:
        """What the engine has to judge. A query alone means that no event matches at all."""
        self.require_offered()
        if isinstance(unless, Condition):
            return unless
        if isinstance(unless, Query):
            return Condition(unless, org=org)
        if not isinstance(unless, Marker):
            must = "a Marker, as `consult` returns it, or a Query, as `match` makes it"
            raise errors.InvalidValue(what="unless", value=names.display(unless), must=must)
        return Condition(unless.query, self._position(unless.after), unless.beyond, org)

    def _position(self, after: str | int) -> int:
        if isinstance(after, str) and (known := self._known.get(after)) is not None:
            return known
        position = after if type(after) is int else cursors.position(self._log, after, over_holes=False)
        head = self._log.head()
        if not 0 <= position <= head:
            must = (
                f"from 0 to the head, {head}: a place that `consult`, `read` or `head` returned, not one of an append"
            )
            raise errors.InvalidValue(what="after of a marker", value=position, must=must)
        if isinstance(after, str) and cursors.parse(after).mark:
            self._remember(after, position)
        return position

    def _remember(self, cursor: str, position: int) -> None:
        self._known[cursor] = position
        if len(self._known) > _CHECKED_MAX:
            self._known.popitem(last=False)


def refusal(condition: Condition, position: int) -> errors.ConditionFailed:
    """The error of a condition that does not hold. 0 stands for an event whose position is not final yet."""
    found = f"the event at position {position}" if position else "an event of the same commit"
    return errors.ConditionFailed(query=text(condition.query), found=found)


def text(query: Query) -> str:
    """A query as an error shows it."""
    return " | ".join(_items(query))[:300]


def _items(query: Query) -> Iterator[str]:
    for item in to_wire(query):
        given = ", ".join(f"{name}={value}" for name, value in item.items() if value)
        yield f"match({given})"
