"""What must not get lost, and what must not come back: erasures, prunes and snapshots in odd orders and at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick import NewEvent, Store, errors, state
from tallystick.event.model import Event
from tallystick.state import Reducer, Until, reducer
from tallystick.store import facts
from tallystick.store.verify import verify

from .conftest import CLOSED, paid


def versioned(version: int, *, step: int = 1) -> Reducer:
    """A reducer that counts."""
    return reducer(name="count", version=version, initial=0)(lambda count, event: count + step)


def test_a_snapshot_that_is_dropped_while_it_is_opened_is_not_an_empty_state(
    store: Store, balance: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-12: whatever happens to a snapshot meanwhile, a fold gives the state and never null."""
    store.append("order/1", paid(1, 2, 4))
    made = state.make(store, balance, "order/1")
    assert made is not None
    load: Callable[..., bytes | None] = store.log.snapshots.load
    seen: list[bytes] = []

    def load_once(id: bytes, **bounds: Any) -> bytes | None:
        if len(seen) == 1:
            state.drop(store, "order/1", [made.id], reason="retention")
        seen.append(id)
        return load(id, **bounds)

    monkeypatch.setattr(store.log.snapshots, "load", load_once)
    assert state.fold(store, balance, "order/1").value["cents"] == 7


def test_an_erased_payload_does_not_come_back_in_a_snapshot_of_the_store(store: Store) -> None:
    """Settled 25: a snapshot of the store that was being made while a payload was erased begins again."""
    store.append("order/1", [NewEvent("named", {"name": name}) for name in ("Ada", "Bob", "Eve")])
    erased: list[int] = []

    def collect(names: list[Any], event: Event) -> list[Any]:
        if event.seq == 3 and not erased:
            erased.append(2)
            state.erase(store, "order/1", 2, reason="asked for")
        return [*names, (event.data or {}).get("name")]

    names = reducer(name="names", initial=[], scope="store")(collect)
    state.make(store, names)
    assert state.fold(store, names).value == ["Ada", None, "Eve"]


def test_a_snapshot_of_the_store_made_during_an_erasure_does_not_escape_it(store: Store) -> None:
    """Settled 25: one that is recorded after an erasure has looked for snapshots is found all the same."""
    store.append("order/1", [NewEvent("named", {"name": name}) for name in ("Ada", "Bob", "Eve")])
    names = reducer(name="names", initial=[], scope="store")(lambda found, event: [*found, event.data])
    made: list[object] = []

    def count(total: int, event: Event) -> int:
        if not made and store.stream_head(facts.stream_about("order/1")) is not None:
            made.append(state.make(store, names))
        return total + 1

    counting = reducer(name="count", initial=0)(count)
    state.seal(store, counting, "order/1")
    state.erase(store, "order/1", 2, reason="asked for", reducers=[counting])
    assert made
    assert state.fold(store, names).value == [{"name": "Ada"}, None, {"name": "Eve"}]


def test_no_trace_of_an_erased_payload_is_left_in_a_difference(store: Store) -> None:
    """Settled 25: a difference never starts from a later snapshot, which an erasure would take from under it."""

    def note(names: dict[str, int], event: Event) -> dict[str, int]:
        return names | {(event.data or {"name": "erased"})["name"]: event.seq}

    names = reducer(name="names", initial={"pad " * 100: 0})(note)
    store.append("order/1", [NewEvent("named", {"name": name}) for name in ("Ada", "Bob", "Eve")])
    state.make(store, names, "order/1")
    before = state.make(store, names, "order/1", until=Until(seq=2))
    state.erase(store, "order/1", 3, reason="asked for")
    assert before is not None
    assert b"Eve" not in (store.log.snapshots.load(before.id) or b"Eve")
    assert list(state.problems(store, [names])) == []


def test_the_state_of_the_store_is_not_lost_by_an_erasure(store: Store, balance: Reducer, total: Reducer) -> None:
    """EVT-14: once something was pruned, its only snapshot goes with an erasure only if that is accepted."""
    store.append("order/1", [*paid(1, 2), CLOSED])
    store.append("order/2", paid(4, 8))
    state.make(store, total)
    state.make(store, balance, "order/1")
    state.prune(store, "order/1", before=4, reducers=[balance, total], accept=True)
    with pytest.raises(errors.EraseRefused, match="snapshots of total hold what was pruned"):
        state.erase(store, "order/2", 1, reason="asked for", reducers=[balance, total])
    assert state.fold(store, total).value["cents"] == 15
    assert state.erase(store, "order/2", 1, reason="asked for", accept=True).dropped == 1


def test_the_snapshot_of_another_version_does_not_stand_for_a_lost_one(store: Store) -> None:
    """EVT-14: what is left over after an erasure must be of the same code as what goes."""
    old, new = versioned(1), versioned(2)
    store.append("order/1", paid(1, 2, 4))
    state.make(store, old, "order/1")
    store.append("order/1", paid(8, 16))
    state.make(store, new, "order/1")
    state.prune(store, "order/1", before=4, accept=True)
    with pytest.raises(errors.EraseRefused, match="snapshots of count"):
        state.erase(store, "order/1", 4, reason="asked for", reducers=[new])
    assert state.fold(store, new, "order/1").value == 5


def test_a_prune_with_a_snapshot_makes_one_of_this_version(store: Store) -> None:
    """EVT-12: a snapshot at the cut that other code made does not cover this reducer."""
    store.append("order/1", paid(1, 2, 4))
    state.make(store, versioned(1), "order/1")
    state.prune(store, "order/1", before=4, reducers=[versioned(2)], snapshot=True, accept=True)
    assert state.fold(store, versioned(2), "order/1").value == 3


def test_a_prune_with_a_snapshot_refuses_a_wrong_one_at_the_cut(store: Store) -> None:
    """EVT-12: one that is there already is compared with a replay, too."""
    store.append("order/1", paid(1, 2, 4))
    state.make(store, versioned(1, step=100), "order/1")
    with pytest.raises(errors.PruneRefused, match="not what a replay gives"):
        state.prune(store, "order/1", before=4, reducers=[versioned(1)], snapshot=True, accept=True)
    assert len(store.read_stream("order/1")) == 3


def test_a_fingerprint_over_an_erased_event_is_no_alarm_when_the_stream_goes_on(store: Store, balance: Reducer) -> None:
    """EVT-08: stale for two reasons is stale, and not damaged."""
    store.append("order/1", paid(1, 2, 4))
    state.seal(store, balance, "order/1")
    store.append("order/1", paid(8))
    state.erase(store, "order/1", 2, reason="asked for", reducers=[balance])
    assert list(state.problems(store, [balance])) == []


def test_a_fingerprint_from_before_the_cut_does_not_stop_validation(store: Store, balance: Reducer) -> None:
    """EVT-08: what cannot be folded any more is not compared, and the rest still is."""
    store.append("order/1", paid(1, 2))
    state.seal(store, balance, "order/1")
    store.append("order/1", [*paid(4), CLOSED])
    state.prune(store, "order/1", before=5, reducers=[balance], snapshot=True, accept=True)
    assert list(state.problems(store, [balance])) == []
    assert state.compare(store, balance, "order/1").resumed is None


def test_a_snapshot_of_the_store_from_below_the_floor_does_not_stop_validation(
    store: Store, balance: Reducer, total: Reducer
) -> None:
    """LH-13: nothing can be replayed from there any more; the later ones are still checked."""
    store.append("order/1", paid(1))
    state.make(store, total)
    store.append("order/1", [*paid(2), CLOSED])
    state.make(store, total)
    state.prune(store, "order/1", before=4, reducers=[balance, total], snapshot=True, accept=True)
    assert list(state.problems(store, [balance, total])) == []


def test_the_double_fold_does_not_blame_a_reducer_that_changes_its_state(store: Store) -> None:
    """EVT-04: changing the state in place and returning it is a function of the state all the same."""

    @reducer(name="count", initial={"events": 0})
    def count(found: dict[str, int], event: Event) -> dict[str, int]:
        found["events"] += 1
        return found

    store.append("order/1", paid(1, 2, 4))
    assert state.check_determinism(store, count, "order/1").value == {"events": 3}


def test_a_fact_with_a_hash_that_is_none_is_named_by_verification(store: Store) -> None:
    """A forged fact is a problem that is found, and does not stop the search for others."""
    store.append("order/1", paid(1))
    fact = facts.Erased(stream="order/1", seq=9, position=9, event="", checksum="no hex", reason="forged")
    store.record([(facts.stream_about("order/1"), NewEvent(facts.ERASED, fact.payload))])
    assert [problem.what for problem in verify(store.log).problems] == ["fact"]
