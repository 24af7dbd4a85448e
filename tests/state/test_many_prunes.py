"""Many prunes in a store with snapshots of the whole store: what stands is found without reading everything."""

from __future__ import annotations

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, state
from tallystick.event.model import Event
from tallystick.state import Reducer, shelf, snapshots
from tallystick.store import facts
from tallystick.store.verify import verify

from .conftest import CLOSED, paid

MARKS = 450


@pytest.fixture
def marked(total: Reducer, balance: Reducer) -> Store:
    """Three snapshots of the store, one of them protected and one dropped since, below the marks of many prunes."""
    store = tallystick.open("memory:")
    made = []
    for _ in range(3):
        store.append("order/1", [*paid(1, 2), CLOSED])
        made.append(state.make(store, total))
    state.make(store, balance, "order/1")
    for number in range(MARKS):
        if number == MARKS // 2:
            state.protect(store, "", made[0].id)
        store.record(snapshots.dropped_facts(store, "", (), f"order/{number} was pruned"))
    snapshots.drop(store, "", [made[1].id], reason="test")
    return store


def _counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many facts about the store are read from now on, call by call."""
    counts: list[int] = []
    read = store.log.read_stream

    def counting(stream: str, **options: int) -> list[Event]:
        found = read(stream, **options)
        if stream == facts.STORE_SNAPSHOTS:
            counts.append(len(found))
        return found

    monkeypatch.setattr(store.log, "read_stream", counting)
    return counts


def test_what_stands_is_found_near_the_end(marked: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-03: one look at the snapshots of the store reads some hundred facts, however many prunes are noted there."""
    counts = _counted(marked, monkeypatch)
    found = list(shelf.entries(marked, ""))
    assert [(entry.fact.position, entry.protected) for entry in found] == [(11, False), (3, True)]
    assert sum(counts) <= 200 < MARKS


def test_planning_a_prune_reads_what_is_current(
    marked: Store, balance: Reducer, total: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-03: a plan reads as many facts after 450 prunes as after 900."""
    counts = _counted(marked, monkeypatch)
    plan = state.plan(marked, "order/1", before=4, reducers=[balance, total], accept=True)
    assert plan.refusals == []
    once = sum(counts)
    for number in range(MARKS):
        marked.record(snapshots.dropped_facts(marked, "", (), f"order/{number} was pruned"))
    counts.clear()
    state.plan(marked, "order/1", before=4, reducers=[balance, total], accept=True)
    assert sum(counts) <= once + 400
    assert state.prune(marked, "order/1", before=4, reducers=[balance, total], accept=True) == 3
    assert verify(marked.log).problems == []


def test_a_list_that_leaves_a_snapshot_out_is_found(marked: Store, total: Reducer) -> None:
    """EVT-03: what a fact lists is held against the facts before it."""
    fact = facts.SnapshotsDropped(stream="", snapshots=[], reason="forged", standing={})
    marked.record([(facts.STORE_SNAPSHOTS, NewEvent(facts.SNAPSHOT_DROPPED, fact.payload))])
    (problem,) = verify(marked.log).problems
    assert "not those that existed then" in problem.reason
    with pytest.raises(errors.SnapshotUnusable):
        state.protect(marked, "", next(iter(marked.log.snapshots.ids())))
