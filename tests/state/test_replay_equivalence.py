"""EVT-04: whatever happens to a log, full replay, snapshot + tail and the fingerprint agree, on every engine alike."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.state import Reducer, State, Until, as_reducer
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id
from tallystick.testing.clock import ManualClock

from .conftest import EMBEDDED, ENGINES, HAS_SERVER, Balance, url_of

STREAMS = ("order/1", "order/2")

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
payloads = st.fixed_dictionaries({"cents": st.integers(-(2**40), 2**40)}, optional={"note": texts})
types = st.sampled_from(["order.paid", "order.closed"])
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.sampled_from(STREAMS), st.lists(st.tuples(types, payloads), min_size=1, max_size=4)
        ),
        st.tuples(st.just("snapshot"), st.sampled_from(STREAMS), st.integers(0, 20)),
        st.tuples(st.just("seal"), st.sampled_from(STREAMS), st.none()),
        st.tuples(st.just("prune"), st.sampled_from(STREAMS), st.integers(2, 12)),
        st.tuples(st.just("erase"), st.sampled_from(STREAMS), st.integers(1, 12)),
        st.tuples(st.just("reclaim"), st.just(""), st.booleans()),
        st.tuples(st.just("reopen"), st.just(""), st.none()),
    ),
    max_size=14,
)


class World:
    """A store under a history, and what its streams must add up to: the plain fold of everything ever appended."""

    def __init__(self, engine: str, place: Path) -> None:
        self.engine = engine
        self._place = contextlib.ExitStack()
        self.url = self._place.enter_context(url_of(engine, place))
        self.clock = ManualClock()
        self.reducer: Reducer = as_reducer(Balance)
        self.store = tallystick.open(self.url, clock=self.clock)
        self.all: dict[str, list[Any]] = {stream: [] for stream in STREAMS}
        self.ids = 0
        for stream in STREAMS:  # so that there is something to prune and erase from the beginning on
            self.append(stream, [("order.paid", {"cents": 1}), ("order.closed", {"cents": 2})] * 3)

    def do(self, what: str, stream: str, argument: Any) -> None:
        """One step; what the rules refuse changes nothing."""
        with contextlib.suppress(errors.PruneRefused, errors.EraseRefused, errors.SnapshotUnusable):
            getattr(self, what)(stream, argument)

    def append(self, stream: str, batch: list[tuple[str, dict[str, Any]]]) -> None:
        """Events with ids and times of their own, so that every engine gives the same links."""
        events = []
        for type_, payload in batch:
            self.ids += 1
            events.append(NewEvent(type_, payload, id=event_id(self.ids), time=self.ids))
        self.store.append(stream, events)
        self.all[stream] = self._events(stream, self.all[stream])

    def _events(self, stream: str, known: list[Any]) -> list[Any]:
        return known + self.store.read_stream(stream, after=len(known))

    def snapshot(self, stream: str, seq: int) -> None:
        """At some seq that is left, or at the end."""
        until = Until(seq=self._left(stream, seq)) if seq % 3 else Until()
        state.make(self.store, self.reducer, stream, until=until)

    def seal(self, stream: str, _: None) -> None:
        """The fingerprint at the end."""
        state.seal(self.store, self.reducer, stream)

    def prune(self, stream: str, before: int) -> None:
        """With the snapshot at the cut, behind the last step that ends there."""
        seq = self._left(stream, before)
        while seq and not self.reducer.ends_step(self.all[stream][seq - 1]):
            seq -= 1
        state.prune(self.store, stream, before=seq + 1, reducers=[self.reducer], snapshot=True, accept=True)

    def erase(self, stream: str, seq: int) -> None:
        """One payload that is left."""
        seq = self._left(stream, seq)
        state.erase(self.store, stream, seq, reason="a test", reducers=[self.reducer])
        event = self.all[stream][seq - 1]
        self.all[stream][seq - 1] = tallystick.Event(*(*event.row[:7], None, *event.row[8:]))

    def _left(self, stream: str, number: int) -> int:
        """A seq between the cut and the end, whatever the number: most steps shall really happen."""
        cut = self.store.cut(stream)
        gone = cut.through if cut is not None else 0
        return min(gone + 1 + number % max(len(self.all[stream]) - gone, 1), len(self.all[stream]))

    def reclaim(self, _: str, compress: bool) -> None:
        """Give room back."""
        self.store.log.reclaim(compress_before=2**62 if compress else None, progress=lambda done: None)

    def reopen(self, _: str, __: None) -> None:
        """Close and open."""
        if self.engine != "memory":
            self.store.close()
            self.store = tallystick.open(self.url, clock=self.clock)

    def close(self) -> None:
        """Close the store, and remove what does not lie in a folder."""
        self.store.close()
        self._place.close()

    def check(self) -> list[tuple[str, bytes, bytes]]:
        """Everything agrees; returns stream, state and link for a comparison of engines."""
        found = []
        for stream in STREAMS:
            resumed = state.fold(self.store, self.reducer, stream)
            assert resumed.body == self._wanted(stream).body
            with contextlib.suppress(errors.HistoryPruned):
                assert state.fold(self.store, self.reducer, stream, snapshots=False).body == resumed.body
            assert state.compare(self.store, self.reducer, stream).equal
            found.append((stream, resumed.body, resumed.link))
        assert verify(self.store.log).problems == []
        assert list(state.problems(self.store, [self.reducer])) == []
        return found

    def _wanted(self, stream: str) -> State:
        """The fold by hand. A payload that was erased after its prefix was pruned stays in the state of the cut."""
        value = self.reducer.initial()
        for event in self.all[stream]:
            value = self.reducer.apply(value, event)
        return State(value=value, stream=stream)


@pytest.mark.parametrize("engine", EMBEDDED)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=steps)
def test_replay_snapshot_and_fingerprint_agree(engine: str, history: list[tuple[str, str, Any]]) -> None:
    """EVT-02, EVT-04: for random histories with snapshots, prunes, erasures, reclaiming and reopening in them."""
    _live(engine, history)


@pytest.mark.skipif(not HAS_SERVER, reason="there is no PostgreSQL server")
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=steps)
def test_replay_snapshot_and_fingerprint_agree_on_a_server(history: list[tuple[str, str, Any]]) -> None:
    """EVT-02, EVT-04: the same in PostgreSQL; fewer histories, because each needs a database of its own."""
    _live("postgres", history)


def _live(engine: str, history: list[tuple[str, str, Any]]) -> None:
    place = Path(tempfile.mkdtemp(prefix="tally-state-"))
    world = World(engine, place)
    try:
        for step in history:
            world.do(*step)
        world.check()
    finally:
        world.close()
        shutil.rmtree(place, ignore_errors=True)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(history=steps)
def test_the_same_events_give_the_same_state_on_every_engine(history: list[tuple[str, str, Any]]) -> None:
    """EVT-02: the same canonical state bytes, state hashes and links, whatever keeps them."""
    place = Path(tempfile.mkdtemp(prefix="tally-state-"))
    worlds: list[World] = []
    try:
        for engine in ENGINES:
            worlds.append(World(engine, place))
            for step in history:
                worlds[-1].do(*step)
        found = [world.check() for world in worlds]
        assert all(each == found[0] for each in found)
    finally:
        for world in worlds:
            world.close()
        shutil.rmtree(place, ignore_errors=True)
