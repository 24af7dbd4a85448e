"""Verification beside writers raises no false alarm, and a hole over some facts takes none but those."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, state
from tallystick.state import Reducer
from tallystick.store import facts
from tallystick.store import verify as verifying
from tallystick.store.events import Problem
from tallystick.store.verify import verify

from .conftest import paid

ROUNDS = 8


def _beside(work: Callable[[int], None]) -> tuple[threading.Thread, threading.Event]:
    stop = threading.Event()

    def run() -> None:
        number = 0
        while not stop.is_set():
            work(number)
            number += 1

    thread = threading.Thread(target=run)
    thread.start()
    return thread, stop


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_appends_beside_it_are_no_problem(engine: str, tmp_path: Path) -> None:
    """What was there when it began is judged; streams that grow or begin meanwhile are followed, not doubted."""
    url = f"{engine}:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", paid(*range(300)))
        with tallystick.open(url, readonly=True) as reader:
            thread, stop = _beside(lambda number: store.append(f"order/{number % 7}", paid(number)) and None)
            try:
                found = [verify(reader.log).problems for _ in range(ROUNDS)]
            finally:
                stop.set()
                thread.join()
    assert found == [[]] * ROUNDS


def test_erasures_and_snapshots_beside_it_are_no_problem(store: Store, balance: Reducer) -> None:
    """A fact that is recorded between the reading of facts and of events is looked for again before it is missed."""
    store.append("order/1", paid(*range(200)))
    todo = iter(range(1, 200))

    def work(number: int) -> None:
        state.erase(store, "order/1", next(todo), reason="asked for")
        state.make(store, balance, "order/1")

    thread, stop = _beside(lambda number: work(number) if number < 12 else stop_now.wait(0.01) and None)
    stop_now = stop
    try:
        found = [verify(store.log).problems for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert verify(store.log).problems == []
    assert found[-1] == []


def test_where_facts_never_cease_only_what_lasts_is_a_problem(
    store: Store, balance: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a fact that came meanwhile may explain is said only if every look sees it; what none explains always is."""
    store.append("a/1", paid(1))
    store.append("b/1", paid(1))
    sealed = state.seal(store, balance, "a/1")
    store.record([(facts.stream_about("b/1"), NewEvent(facts.SEALED, sealed.payload))])
    look, looks = verifying._look, []

    def look_beside_facts(*given: Any) -> Any:
        found, claims = look(*given)
        looks.append(found)
        found.extend([Problem("snapshot", f"seen by look {len(looks)}")])
        found.extend([Problem("head", f"the log ends at seq {len(looks)}")])
        store.append("c/1", paid(1))
        state.seal(store, balance, "c/1")
        return found, claims

    monkeypatch.setattr(verifying, "_look", look_beside_facts)
    assert [problem.what for problem in verify(store.log).problems] == ["fact", "head"]
    assert len(looks) == verifying.LOOKS_MAX


def test_a_hole_over_one_fact_takes_no_other(tmp_path: Path) -> None:
    """Settled 15: the damaged fact is named as a hole; what the other facts say still holds."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("a/1", paid(1, 2))
        store.append("b/1", paid(1, 2))
        state.erase(store, "a/1", 1, reason="asked for")
        state.erase(store, "b/1", 1, reason="marked-to-be-damaged")
        store.append("c/1", paid(1))
    for path in (tmp_path / "log").glob("*.log"):
        data = bytearray(path.read_bytes())
        place = data.find(b"marked-to-be-damaged")
        if place >= 0:
            data[place] ^= 1
            path.write_bytes(data)
    with tallystick.open(url, readonly=True) as store:
        found = verify(store.log).problems
    assert {problem.what for problem in found} == {"hole"}


def test_a_fact_in_the_wrong_stream_is_named(store: Store, balance: Reducer) -> None:
    """A fact about one stream that stands beside another tells of nothing, and is a problem."""
    store.append("a/1", paid(1))
    store.append("b/1", paid(1))
    sealed = state.seal(store, balance, "a/1")
    store.record([(facts.stream_about("b/1"), NewEvent(facts.SEALED, sealed.payload))])
    assert [problem.what for problem in verify(store.log).problems] == ["fact"]


def test_a_fingerprint_past_the_end_is_named(store: Store, balance: Reducer) -> None:
    """A seal over a seq that the stream does not have."""
    import msgspec

    store.append("a/1", paid(1))
    sealed = msgspec.structs.replace(state.seal(store, balance, "a/1"), seq=9)
    store.record([(facts.stream_about("a/1"), NewEvent(facts.SEALED, sealed.payload))])
    assert [problem.what for problem in verify(store.log).problems] == ["fingerprint"]


def test_a_fold_beside_prunes_never_fails(store: Store) -> None:
    """A fold that finds its beginning pruned starts again from the snapshot at the cut."""
    count = state.reducer(name="count", initial={"n": 0})(lambda value, event: {"n": value["n"] + 1})
    store.append("a/1", paid(*range(60)))
    cuts = iter(range(2, 60))

    def work(number: int) -> None:
        before = next(cuts, None)
        if before is not None:
            state.prune(store, "a/1", before=before, reducers=[count], snapshot=True, accept=True)

    thread, stop = _beside(work)
    try:
        for _ in range(40):
            try:
                assert state.fold(store, count, "a/1").value == {"n": 60}
            except errors.HistoryPruned:  # pruned twice during one fold: said so, and never computed from what is left
                continue
    finally:
        stop.set()
        thread.join()
    assert state.fold(store, count, "a/1").value == {"n": 60}
