"""A projection that is written as expressions, so that Python, a database or Spark can compute it.

    class Revenue(Summary):
        types = ("order.placed",)
        key = payload.customer
        total = sum_(payload.amount)
        orders = count()

Its state is an object with an entry for each measure. All three compute the same bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event
from tallystick.projections import model
from tallystick.projections.summary.compiled import Accounts, Fold, compile_fold
from tallystick.projections.summary.fields import Field, path
from tallystick.projections.summary.measures import Measure
from tallystick.store.views import BY_STREAM

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LABELS = {60: "%Y-%m-%dT%H:%M", 3600: "%Y-%m-%dT%H", 86_400: "%Y-%m-%d"}


class Summary(model.Projection):
    """The base of every projection that is written as expressions. See docs/projections.md.

    `key` is "stream", "kind", or a field of the payload. Every attribute that is a measure is an entry of the state.
    The version is computed from the expressions: rows that other expressions made are refused by name.
    """

    key: ClassVar[Any] = BY_STREAM
    measures: ClassVar[dict[str, Measure]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        written = vars(cls).get("version", 1)
        super().__init_subclass__(**more)
        if isinstance(cls.key, Field):
            cls.key = path(cls.key)
        own = {name: found for name, found in vars(cls).items() if isinstance(found, Measure)}
        cls.measures = {**cls.measures, **own}
        text = f"{written} {sorted((name, *measure) for name, measure in cls.measures.items())}"
        cls.version = 1 + zlib.crc32(text.encode()) % names.VERSION_MAX
        if cls.measures:  # a worker creates the class first, and adds its attributes later
            _check(cls)

    def initial(self) -> Any:
        """The state of a key before its first event."""
        return self.to_state([measure.zero() for measure in self.measures.values()])

    def apply(self, state: Any, event: Event) -> Any:
        """The state after an event, for runners that apply one event at a time."""
        (account,) = self.accounts_from([event]).values()
        return self.to_state(self.merge(self.accounts(state), account))

    def accounts_from(self, events: Iterable[Event]) -> Accounts:
        """The accounts of each key from these events alone."""
        return self._fold(events)

    def accounts(self, state: Any) -> list[Any]:
        """The accounts of a state."""
        return [_relabelled(measure, state[name]) for name, measure in self.measures.items()]

    def merge(self, one: list[Any], later: list[Any]) -> list[Any]:
        """Accounts together with those of later events."""
        listed = self.measures.values()
        return [measure.merge(*both) for measure, *both in zip(listed, one, later, strict=True)]

    def to_state(self, accounts: Sequence[Any]) -> dict[str, Any]:
        """The state of accounts."""
        listed = self.measures.items()
        return {name: _labelled(measure, account) for (name, measure), account in zip(listed, accounts, strict=True)}

    def refuse(self, event: Event, measure: Measure, value: Any) -> None:
        """Raise an error that names the event with a value that a measure does not take."""
        name = next(name for name, found in self.measures.items() if found is measure)
        wanted = measure.takes if not measure.places else f"{measure.takes} with up to {measure.places} places"
        found = "a decimal" if type(value) is float else model._kind(value) if type(value) is not str else "a text"
        reason = f"{name}: {path(measure.field) if measure.field else ''} is {found}, not {wanted}"
        raise errors.ProjectionFailed(
            name=self.name, stream=event.stream, seq=event.seq, position=event.position, reason=reason
        )

    @cached_property
    def _fold(self) -> Fold:
        listed = list(self.measures.values())
        return compile_fold(self.key, listed, key_of=lambda event: model.key_of(self, event), refuse=self.refuse)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_fold"}  # each process compiles it


def _check(cls: type[Summary]) -> None:
    reason = None
    if taken := [name for name in cls.measures if hasattr(Summary, name) or name.startswith("_")]:
        reason = f"an entry cannot be called {taken[0]!r}, which is part of every projection"
    elif cls.order != model.BY_POSITION:
        reason = "a summary is folded in the order of positions"
    elif strange := {type_ for measure in cls.measures.values() for type_ in measure.of} - set(cls.types):
        reason = f"of={sorted(strange)!r} is not among its types"
    if reason is not None:
        raise errors.ProjectionInvalid(name=cls.name, reason=reason)


def _labelled(measure: Measure, account: Any) -> Any:
    """The JSON of an account; a window is named by its first moment, in UTC."""
    found = measure.finish(account)
    if not measure.per:
        return found
    form = _LABELS[measure.per]
    return {f"{_EPOCH + timedelta(seconds=at * measure.per):{form}}": inner for at, inner in found.items()}


def _relabelled(measure: Measure, state: Any) -> Any:
    if measure.per:
        form = _LABELS[measure.per]
        state = {_window(label, form, measure.per): inner for label, inner in state.items()}
    return measure.from_state(state)


def _window(label: str, form: str, per: int) -> int:
    return int((datetime.strptime(label, form).replace(tzinfo=UTC) - _EPOCH).total_seconds()) // per
