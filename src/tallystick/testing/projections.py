"""Tests of a projection: given these events, when these come, then these states, or these rows of its tables.

Scenario(Balance()).given(placed(3)).when(paid(2)).then({"c1": {"open": 1}})
Scenario(OpenOrders()).when(placed(3)).then_rows("SELECT amount FROM {orders}", [(3,)])
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from tallystick import Catalog, Event, Store, errors, open
from tallystick.event import canonical
from tallystick.event.model import Appendable
from tallystick.projections import Live, Projection, TableProjection, TableRunner, ViewReader, model
from tallystick.testing.clock import ManualClock
from tallystick.testing.difference import difference

STREAM = "test/1"


class Scenario:
    """One projection and a new store. Events go to `test/1` unless you name a stream.

    Tables need a database: their store is a SQLite file in a temporary directory, which goes with the scenario.
    """

    def __init__(self, projection: Projection, *, catalog: Catalog | None = None) -> None:
        self.projection = projection
        self._tables: TableRunner | None = None
        if isinstance(projection, TableProjection):
            place = tempfile.mkdtemp()
            self.store: Store = open(f"sqlite:{place}/log.db", catalog=catalog, clock=ManualClock())
            weakref.finalize(self, _remove, self.store, place)
            self._tables = TableRunner(self.store, projection)
        else:
            self.store = open("memory:", catalog=catalog, clock=ManualClock())
        self._before: dict[str, Any] = {}

    def given(self, *events: Appendable, stream: str = STREAM) -> Scenario:
        """Events that happened before. They are applied; `then` looks only at what changes later."""
        self.when(*events, stream=stream)
        self._before = {} if self._tables else self.states()
        return self

    def when(self, *events: Appendable, stream: str = STREAM) -> Scenario:
        """Events that happen now. The projection is also folded twice: see `check_fold`."""
        if events:
            self.store.append(stream, list(events))
        if self._tables is not None:
            self._tables.catch_up()
            return self
        check_fold(self.projection, self.store.events())
        Live(self.store, self.projection).catch_up()
        return self

    def then(self, changed: dict[str, Any]) -> Scenario:
        """Assert that exactly these states are new or changed, compared as canonical JSON."""
        found = {key: state for key, state in self.states().items() if _differs(state, key, self._before)}
        assert _texts(found) == _texts(changed), difference(
            f"{self.projection.name} changed other states", expected=_lines(changed), found=_lines(found)
        )
        return self

    def then_rows(self, query: str, rows: Sequence[Sequence[Any]]) -> Scenario:
        """Assert that a query on the tables of the projection gives exactly these rows, in this order."""
        if self._tables is None:
            raise errors.ProjectionInvalid(name=self.projection.name, reason="it owns no tables: use then()")
        found = self._tables.query(query)
        expected = list(map(tuple, rows))
        what = f"{self.projection.name} has other rows"
        assert found == expected, difference(what, expected=expected, found=found)
        return self

    def then_refused(self, kind: type[errors.TallyError], *events: Appendable, stream: str = STREAM) -> Scenario:
        """Assert that the projection refuses these events with this error."""
        try:
            self.when(*events, stream=stream)
        except kind:
            return self
        raise AssertionError(f"{self.projection.name} accepted the events; {kind.__name__} was expected")

    def states(self) -> dict[str, Any]:
        """All states by key."""
        return dict(ViewReader(self.store, self.projection.name).items())


def check_fold(projection: Projection, events: Iterable[Event]) -> int:
    """Fold twice, once with a JSON round trip after every event. `FoldDiverged` names the first difference.

    Returns the number of folded events. States must be plain JSON, and must not depend on what JSON does not keep.
    """
    plain: dict[str, Any] = {}
    through_json: dict[str, Any] = {}
    count = 0
    for event in events:
        key = model.key_of(projection, event) if event.type in projection.types else None
        if key is None:
            continue
        count += 1
        for states in (plain, through_json):
            states[key] = projection.apply(states[key] if key in states else projection.initial(), event)
        text = canonical.encode_state(through_json[key])
        if canonical.encode_state(plain[key]) != text:
            raise errors.FoldDiverged(name=projection.name, stream=event.stream, seq=event.seq)
        through_json[key] = canonical.decode(text)
    return count


def _differs(state: Any, key: str, before: dict[str, Any]) -> bool:
    return key not in before or canonical.encode_state(before[key]) != canonical.encode_state(state)


def _texts(states: dict[str, Any]) -> dict[str, bytes]:
    return {key: canonical.encode_state(state) for key, state in states.items()}


def _lines(states: dict[str, Any]) -> list[str]:
    return [f"{key!r}: {states[key]!r}" for key in sorted(states)]


def _remove(store: Store, place: str) -> None:
    store.close()
    shutil.rmtree(place, ignore_errors=True)
