"""The model test: an engine and the memory engine get the same calls and must give the same answers.

Positions can have gaps in an engine but not in the model, so they are compared by rank: the n-th event of one is the
n-th event of the other.
"""

from __future__ import annotations

import bisect
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tallystick
from tallystick import ANY, Appended, Event, Marker, NewEvent, Query, Selection, Store, errors, match
from tallystick.store.capabilities import ANY_STREAM, CONDITIONS, DURABLE, GLOBAL_ORDER
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing.builders import event, event_id
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract.harness import EngineHarness

_T = TypeVar("_T")

STREAMS = ("order/1", "order/2", "run/a", "user/x")
BOUNDED = hypothesis.settings(
    derandomize=True,
    database=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),  # shrinking on a disk takes too long
    deadline=None,
    max_examples=30,
    stateful_step_count=40,
    suppress_health_check=list(hypothesis.HealthCheck),
)

streams = st.sampled_from(STREAMS)
metas = st.fixed_dictionaries(
    {},
    optional={
        "org": st.sampled_from(("acme", "bolt")),
        "app": st.just("web"),
        "source": st.just("till"),
        "source_seq": st.integers(1, 40),
        "actor_id": st.just("ada"),
        "tags": st.lists(st.sampled_from(("a:1", "b:1", "c:1")), min_size=1, max_size=3),
    },
)
contents = st.fixed_dictionaries(
    {
        "number": st.integers(0, 2),
        "type": st.sampled_from(("thing.happened", "thing.undone")),
        "meta": st.one_of(st.none(), st.none(), st.none(), metas),
        "time": st.none() | st.integers(0, 2),
    }
)
batches = st.lists(contents, min_size=1, max_size=3)
leaps = st.sampled_from((None, None, None, None, 0, 0, 1, -1))  # None means ANY, a number how far it is from the head
parts = st.tuples(streams, batches, leaps)
queries = st.sampled_from(
    (
        match(tags=["a:1"]),
        match(tags=["a:1", "b:1"]) | match(types=["thing.undone"], tags=["c:1"]),
        match(types=["thing.undone"]),
        match(types=["no.such"]) | match(tags=["no:such"]),
        match(),
    )
)
seen = st.none() | st.integers(0, 9)  # None means that no event may match at all, a number which consultation
conditions: dict[str, st.SearchStrategy[Any]] = {
    "streams": st.frozensets(streams, max_size=2),
    "kinds": st.frozensets(st.sampled_from(("order", "run")), max_size=1),
    "types": st.just(frozenset({"thing.happened"})),
    "org": st.just("acme"),
    "app": st.just("web"),
    "actor_id": st.just("ada"),
    "query": queries,
    "time_from": st.integers(0, 3),
    "time_until": st.integers(0, 3),
}
selections = st.sets(st.sampled_from(sorted(conditions)), max_size=2).flatmap(
    lambda names: st.builds(Selection, **{name: conditions[name] for name in sorted(names)})
)


class LogMachine(RuleBasedStateMachine):
    """Random calls to an engine and to the model."""

    make_harness: Callable[[Path], EngineHarness]

    @initialize()
    def start(self) -> None:
        """Open both, under one clock."""
        self.place = tempfile.mkdtemp(prefix="tally-model-")
        self.harness = type(self).make_harness(Path(self.place))
        self.clock = ManualClock()
        self.engine = self.harness.open(clock=self.clock)
        self.model = tallystick.open("memory:", clock=self.clock)
        self.positions: list[int] = []
        self.sent: list[tuple[str, list[NewEvent]]] = []
        self.stored: list[tuple[str, list[NewEvent]]] = []
        self.markers: list[tuple[Marker, Marker]] = []  # of the model, and of the engine
        self.ids = 0

    # --- writing ---------------------------------------------------------------------------------------------------

    @rule(part=parts)
    def append(self, part: tuple[str, Any, int | None]) -> None:
        """Append new events to one stream."""
        stream, events, expected = self._part(part)
        self._write(lambda store: [store.append(stream, events, expected=expected)])

    @rule(given=st.lists(parts, min_size=1, max_size=3))
    def append_all(self, given: list[Any]) -> None:
        """Append to several streams in one commit."""
        made = [self._part(part) for part in given]
        self._write(lambda store: store.append_all(made))

    @rule(given=st.lists(st.lists(parts, min_size=1, max_size=2), min_size=1, max_size=4))
    def submit(self, given: list[Any]) -> None:
        """Append a group of requests, each judged on its own."""
        requests = [Request([Part(*self._part(part)) for part in request]) for request in given]
        self._write_group(lambda store: store.submit(requests))

    @precondition(lambda self: self.stored)
    @rule(which=st.integers(0, 99), leap=leaps)
    def retry(self, which: int, leap: int | None) -> None:
        """Send a stored append again, unchanged."""
        stream, events = self.stored[which % len(self.stored)]
        expected = self._expected(stream, leap)
        self._write(lambda store: [store.append(stream, events, expected=expected)])

    @precondition(lambda self: self.stored)
    @rule(which=st.integers(0, 99), leap=leaps, change=st.sampled_from(("payload", "more", "more", "turn", "stream")))
    def retry_changed(self, which: int, leap: int | None, change: str) -> None:
        """Send a stored append again with another payload, more events, in reverse order, or to another stream."""
        stream, events = self.stored[which % len(self.stored)]
        if change == "payload":
            events = [*events[:-1], msgspec.structs.replace(events[-1], payload={"n": 99})]
        elif change == "more":
            events = [*events, event(7, id=self._new_id())]
        elif change == "turn":
            events = events[::-1]
        else:
            stream = self._stream(STREAMS[which % len(STREAMS)])
        expected = self._expected(stream, leap)
        self._write(lambda store: [store.append(stream, events, expected=expected)])

    @precondition(lambda self: CONDITIONS in self.engine.log.capabilities)
    @rule(part=parts, query=queries, which=seen)
    def append_unless(self, part: tuple[str, Any, int | None], query: Query, which: int | None) -> None:
        """Append if nothing matches that an earlier consultation did not see."""
        stream, events, expected = self._part(part)
        unless = self._unless(query, which)
        self._write(lambda store: [store.append(stream, events, expected=expected, unless=unless(store))])

    @precondition(lambda self: self.stored and CONDITIONS in self.engine.log.capabilities)
    @rule(which=st.integers(0, 99), query=queries, marker=seen, more=st.booleans())
    def retry_unless(self, which: int, query: Query, marker: int | None, more: bool) -> None:
        """Send a stored append again with a condition, unchanged or with one more event."""
        stream, events = self.stored[which % len(self.stored)]
        if more:
            events = [*events, event(7, id=self._new_id())]
        unless = self._unless(query, marker)
        self._write(lambda store: [store.append(stream, events, unless=unless(store))])

    @rule(seconds=st.integers(-5, 5))
    def tick(self, seconds: int) -> None:
        """Time passes, or goes back."""
        self.clock.advance(seconds=seconds)

    @precondition(lambda self: DURABLE in self.engine.log.capabilities)
    @rule()
    def reopen(self) -> None:
        """Close the engine and open it again; the model stays as it is."""
        self.engine.close()
        self.engine = self.harness.open(clock=self.clock)

    # --- reading ---------------------------------------------------------------------------------------------------

    @rule(low=st.integers(0, 20), span=st.none() | st.integers(0, 20), limit=st.integers(1, 12), selection=selections)
    def read(self, low: int, span: int | None, limit: int, selection: Selection) -> None:
        """One filtered page."""
        low = low % (len(self.positions) + 1) if low > 9 else 0
        high = None if span is None else min(low + span, len(self.positions))
        wanted = self.model.read(after=low, until=high, limit=limit, selection=selection)
        until = None if high is None else self._position(high)
        found = self.engine.read(after=self._position(low), until=until, limit=limit, selection=selection)
        assert self._ranked(found.events) == wanted.events
        if len(wanted.events) < limit:
            assert self._rank(found.through) == wanted.through
        else:
            assert self._rank(found.through) >= wanted.through

    @precondition(lambda self: CONDITIONS in self.engine.log.capabilities)
    @rule(query=queries, org=st.sampled_from((None, None, "acme")))
    def consult(self, query: Query, org: str | None) -> None:
        """Everything that matches, and a marker for later."""
        wanted, found = self.model.consult(query, org=org), self.engine.consult(query, org=org)
        assert self._ranked(found.events) == wanted.events
        if org is None:
            self.markers.append((wanted.marker, found.marker))

    @rule(stream=streams, after=st.integers(0, 3), until=st.none() | st.integers(0, 6), limit=st.integers(1, 4))
    def read_stream(self, stream: str, after: int, until: int | None, limit: int) -> None:
        """A window of one stream."""
        stream = self._stream(stream)
        wanted = self.model.read_stream(stream, after=after, until=until, limit=limit)
        found = self.engine.read_stream(stream, after=after, until=until, limit=limit)
        assert self._ranked(found) == wanted

    @rule(after=st.sampled_from(("", "order", "order/1", "run/a", "z")), limit=st.integers(1, 4))
    def streams(self, after: str, limit: int) -> None:
        """A page of the listing."""
        assert self.engine.streams(after=after, limit=limit) == self.model.streams(after=after, limit=limit)

    @rule(number=st.integers(1, 30))
    def find(self, number: int) -> None:
        """An event by its id."""
        wanted, found = self.model.find(event_id(number)), self.engine.find(event_id(number))
        assert (found and self._ranked([found])[0]) == wanted

    @rule(number=st.integers(1, 30))
    def recorded_at(self, number: int) -> None:
        """When an event was recorded."""
        if number <= len(self.positions):
            assert self.engine.log.recorded_at(self._position(number)) == self.model.log.recorded_at(number)

    @invariant()
    def heads_agree(self) -> None:
        """After every step both end at the same event."""
        if hasattr(self, "engine"):
            assert self._rank(self.engine.head()) == self.model.head() == len(self.positions)
            for stream in STREAMS:
                assert self.engine.stream_head(stream) == self.model.stream_head(stream)

    def teardown(self) -> None:
        """At the end both logs are the same, and the engine verifies."""
        if hasattr(self, "engine"):
            try:
                assert self._ranked(self.engine.read().events) == self.model.read().events
                assert verify(self.engine.log).problems == []
            finally:
                self.engine.close()
                self.harness.close()
                shutil.rmtree(self.place, ignore_errors=True)

    # --- both ------------------------------------------------------------------------------------------------------

    def _part(self, part: tuple[str, Any, int | None]) -> tuple[str, list[NewEvent], int]:
        stream, batch, leap = self._stream(part[0]), part[1], part[2]
        events = [event(**content, id=self._new_id()) for content in batch]
        self.sent.append((stream, events))
        return stream, events, self._expected(stream, leap)

    def _unless(self, query: Query, which: int | None) -> Callable[[Store], Marker | Query]:
        """The condition for the model and for the engine."""
        if which is None or not self.markers:
            return lambda store: query
        of_model, of_engine = self.markers[which % len(self.markers)]
        return lambda store: of_model if store is self.model else of_engine

    def _stream(self, stream: str) -> str:
        """The stream to use. It is always the same one if the engine has only runs, with no order between them."""
        return stream if {ANY_STREAM, GLOBAL_ORDER} <= self.engine.log.capabilities else "run/a"

    def _new_id(self) -> bytes:
        self.ids += 1
        return event_id(self.ids)

    def _expected(self, stream: str, leap: int | None) -> int:
        head = self.model.stream_head(stream)
        return ANY if leap is None else max((head.seq if head else 0) + leap, 0)

    def _write(self, call: Callable[[Store], list[Appended]]) -> None:
        self._write_group(lambda store: [_outcome(lambda: call(store))])

    def _write_group(self, call: Callable[[Store], Sequence[Any]]) -> None:
        wanted, found = call(self.model), call(self.engine)
        page = self.engine.read(after=self._position(len(self.positions)))
        self.positions += [item.position for item in page.events]
        assert [self._comparable(item) for item in found] == [_comparable_json(item) for item in wanted]
        self.stored += [(stream, events) for stream, events in self.sent if self.model.find(events[0].id)]
        self.sent.clear()

    def _comparable(self, outcome: Any) -> Any:
        if isinstance(outcome, errors.TallyError):
            return _comparable_json(outcome)
        return [
            msgspec.structs.replace(
                done, first_position=self._rank(done.first_position), last_position=self._rank(done.last_position)
            )
            for done in outcome
        ]

    def _position(self, rank: int) -> int:
        return self.positions[rank - 1] if rank else 0

    def _rank(self, position: int) -> int:
        return bisect.bisect_right(self.positions, position)

    def _ranked(self, found: list[Event]) -> list[Event]:
        assert all(item.position in self.positions for item in found)
        return [msgspec.structs.replace(item, position=self._rank(item.position)) for item in found]


def _outcome(call: Callable[[], _T]) -> _T | errors.TallyError:
    try:
        return call()
    except errors.TallyError as refusal:
        return refusal


def _comparable_json(outcome: Any) -> Any:
    if isinstance(outcome, errors.ConditionFailed):
        return outcome.query  # which event it names is for the engine to choose
    return outcome.as_json() if isinstance(outcome, errors.TallyError) else outcome


def model_test(make: Callable[[Path], EngineHarness], *, settings: hypothesis.settings = BOUNDED) -> Any:
    """A test case for a test module: `TestModel = model_test(lambda place: UrlHarness(...))`."""

    class Machine(LogMachine):
        make_harness = staticmethod(make)

    case = Machine.TestCase
    case.settings = settings
    return case
