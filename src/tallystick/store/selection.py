"""Which events a reader wants. A selection filters; it never changes the order, nor how far the log is scanned."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tallystick import errors
from tallystick.event import limits, names
from tallystick.event.model import Event
from tallystick.store.query import Query, match, subject

SCOPE = ("org", "app", "env", "actor_id", "correlation_id", "causation_id")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """All given conditions must hold. An empty selection selects everything.

    `time_from` is inclusive and `time_until` exclusive, both in ns. Times filter; they never order.
    """

    streams: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    org: str | None = None
    app: str | None = None
    env: str | None = None
    actor_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    query: Query | None = None
    time_from: int | None = None
    time_until: int | None = None

    def __post_init__(self) -> None:
        for name in ("streams", "kinds", "types"):
            if isinstance(getattr(self, name), str):
                raise errors.InvalidValue(what=name, value=getattr(self, name), must="a set of names, not one text")
        for stream in self.streams:
            names.stream_kind(stream)
        for kind in self.kinds:
            names.check_kind(kind)
        for type_ in self.types:
            names.check_type(type_)
        for key, value in self.scope.items():
            names.check_label(key, value)
        if self.query is not None and type(self.query) is not Query:
            raise errors.InvalidValue(what="query", value=names.display(self.query), must="a Query")
        for key in ("time_from", "time_until"):
            time = getattr(self, key)
            if time is not None and (type(time) is not int or not limits.INT_MIN <= time <= limits.INT_MAX):
                raise errors.InvalidValue(what=key, value=names.display(time), must="nanoseconds since 1970")

    @property
    def is_everything(self) -> bool:
        """Whether no condition is set."""
        return self == EVERYTHING

    @property
    def scope(self) -> dict[str, str]:
        """The conditions on texts in the meta that are set."""
        return {key: value for key in SCOPE if (value := getattr(self, key)) is not None}

    def predicate(self) -> Callable[[Event], bool]:
        """A function that says whether an event is wanted; cheap conditions come first."""
        scope, query = self.scope, self.query

        def wanted(event: Event) -> bool:
            if self.types and event.type not in self.types:
                return False
            if self.streams and event.stream not in self.streams:
                return False
            if self.kinds and event.stream.partition("/")[0] not in self.kinds:
                return False
            if self.time_from is not None and event.time < self.time_from:
                return False
            if self.time_until is not None and event.time >= self.time_until:
                return False
            if scope:
                about = event.about
                if not all(getattr(about, key) == value for key, value in scope.items()):
                    return False
            return query is None or query.matches(subject(event.type, event.meta))

        return wanted


EVERYTHING = Selection()


def select(
    *,
    stream: str | None = None,
    type: str | None = None,
    kind: str | None = None,
    org: str | None = None,
    app: str | None = None,
    env: str | None = None,
    actor_id: str | None = None,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    tags: Iterable[str] = (),
    time_from: int | None = None,
    time_until: int | None = None,
) -> Selection:
    """A selection of at most one stream, one type and one kind, and of all the tags: the common case."""
    wanted = match(tags=tags)
    return Selection(
        streams=frozenset(() if stream is None else (stream,)),
        types=frozenset(() if type is None else (type,)),
        kinds=frozenset(() if kind is None else (kind,)),
        org=org,
        app=app,
        env=env,
        actor_id=actor_id,
        correlation_id=correlation_id,
        causation_id=causation_id,
        query=None if wanted.is_everything else wanted,
        time_from=time_from,
        time_until=time_until,
    )
