"""A prune takes nobody's state with it unasked: not that of strangers, of other kinds, nor by a clock gone wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, Store, errors, state
from tallystick.state import Reducer, Until, reducer
from tallystick.state.policy import PRESETS
from tallystick.state.retention import retain
from tallystick.testing.clock import ManualClock


def counting(name: str, **options: Any) -> Reducer:
    """A reducer that counts."""
    return reducer(name=name, initial={"n": 0}, **options)(lambda value, event: {"n": value["n"] + 1})


def fill(store: Store, stream: str, count: int) -> None:
    """Events, each in a commit of its own."""
    for number in range(count):
        store.append(stream, NewEvent("t", {"x": number}))


def test_a_prune_beside_an_erasure_of_another_stream_is_planned_again(store: Store) -> None:
    """EVT-03: the erasure drops a snapshot of the store that the prune relied on, so the prune is refused."""
    whole = counting("whole", scope="store")
    fill(store, "a/1", 3)
    fill(store, "b/1", 3)
    state.make(store, whole)
    armed = [True]

    def apply(value: int, event: Any) -> int:
        if armed and event.stream == "a/1":
            armed.clear()
            state.erase(store, "b/1", 2, reason="asked for")
        return value + 1

    own = reducer(name="own", initial=0)(apply)
    with pytest.raises(errors.PruneRefused, match="folds the whole store"):
        state.prune(store, "a/1", before=4, reducers=[own, whole], snapshot=True, accept=True)
    assert state.fold(store, whole).value == {"n": 6}


def test_a_policy_never_takes_the_state_of_a_reducer_that_is_not_at_hand(store: Store, clock: ManualClock) -> None:
    """Settled 4: a reducer known by its snapshots alone keeps what they do not cover; a person may accept the loss."""
    own, whole = counting("own"), counting("whole", scope="store")
    fill(store, "a/1", 4)
    state.make(store, whole)
    fill(store, "a/1", 4)
    state.make(store, own, "a/1")
    clock.advance(seconds=8 * 86400)
    deeds, _ = retain(store, [own], PRESETS["keep-7-days"])
    assert [deed.why_not for deed in deeds] == ["the state of reducer 'whole' would be lost with it"]
    assert state.fold(store, whole).value == {"n": 8}
    found = state.plan(store, "a/1", before=9, reducers=[own])
    assert "the state of reducer 'whole' would be lost with it" in found.refusals
    assert state.plan(store, "a/1", before=9, reducers=[own], accept=True).ok


def test_without_reducers_every_known_one_must_be_covered(store: Store) -> None:
    """EVT-03: the coverage that is too short is named with its reducer and its end."""
    first, second = counting("first"), counting("second")
    fill(store, "a/1", 10)
    state.make(store, second, "a/1")
    state.make(store, first, "a/1", until=Until(seq=3))
    found = state.plan(store, "a/1", before=6, accept=True)
    assert found.refusals == ["prune boundary exceeds snapshot coverage of reducer 'first', which ends at seq 3"]


def test_what_is_pruned_of_other_kinds_is_no_concern_of_a_store_reducer(store: Store) -> None:
    """A reducer of the whole store that folds one kind is refused only what was pruned of that kind."""
    mine, other = counting("mine", scope="store", kinds=["a"]), counting("other", kinds=["b"])
    fill(store, "a/1", 2)
    fill(store, "b/1", 4)
    state.make(store, other, "b/1")
    state.prune(store, "b/1", before=3, reducers=[mine, other], accept=True)
    assert state.fold(store, mine).value == {"n": 2}
    state.prune(store, "a/1", before=2, reducers=[counting("a")], snapshot=True, accept=True)
    with pytest.raises(errors.HistoryPruned):
        state.fold(store, mine)


def test_a_store_has_no_seq(store: Store) -> None:
    """Bad input: a seq for a fold of the whole store is refused; a position and a time are what it goes by."""
    whole = counting("whole", scope="store")
    fill(store, "a/1", 3)
    fill(store, "b/1", 3)
    with pytest.raises(errors.InvalidValue, match="a store has no seq"):
        state.fold(store, whole, until=Until(seq=2))
    assert state.fold(store, whole, until=Until(position=4)).value == {"n": 4}


def test_a_clock_that_was_wrong_once_takes_no_young_event(store: Store, clock: ManualClock) -> None:
    """Settled 26: an event that was recorded in the far past stands between young ones; those stay, and it too."""
    own = counting("own")
    fill(store, "a/1", 7)
    clock.advance(seconds=-40 * 365 * 86400)
    fill(store, "a/1", 1)
    clock.advance(seconds=40 * 365 * 86400)
    fill(store, "a/1", 7)
    state.make(store, own, "a/1")
    retain(store, [own], PRESETS["keep-7-days"])
    assert store.cut("a/1") is None


def test_a_reducer_that_changes_its_state_in_place_folds_the_same_every_time(store: Store) -> None:
    """EVT-02: the initial state is a copy, whatever the reducer does to it."""
    shared = {"n": 0}

    class InPlace:
        name, version = "in-place", 1

        def initial(self) -> dict[str, int]:
            return shared

        def apply(self, value: dict[str, int], event: Any) -> dict[str, int]:
            value["n"] += 1
            return value

    fill(store, "a/1", 3)
    folds = [state.fold(store, state.as_reducer(InPlace), "a/1").value["n"] for _ in range(3)]
    assert folds == [3, 3, 3]


@pytest.mark.parametrize("attribute", ["kinds", "types", "step_types"])
def test_one_name_is_not_taken_for_its_letters(attribute: str) -> None:
    """Bad input: `types = ("tx")` is a text, and refused with the form it must have."""
    with pytest.raises(errors.ReducerInvalid, match="must be a tuple of names"):
        counting("own", **{attribute: "tx"})


def test_what_a_reducer_raises_is_told_by_its_name(store: Store) -> None:
    """Errors: initial, invariants and is_step_end of a reducer fail with the reducer's name, not with a trace."""

    def fail(*_: Any) -> Any:
        raise RuntimeError("oops")

    fill(store, "a/1", 2)
    with pytest.raises(errors.ReducerInvalid, match="oops"):
        state.fold(store, state.Reducer(name="bad", version=1, initial=fail, apply=fail), "a/1")
    strict = counting("strict", invariants=fail)
    state.make(store, strict, "a/1")
    assert [problem.reason.rpartition(": ")[2] for problem in state.problems(store, [strict])] == ["oops"]
    with pytest.raises(errors.ReducerInvalid, match="oops"):
        state.plan(store, "a/1", before=2, reducers=[counting("steps", is_step_end=fail)], snapshot=True)


def test_a_set_says_that_a_member_was_dropped_and_why(store: Store) -> None:
    """LH-15: restoring a set whose member went with an erasure names the reason."""
    own = counting("own")
    fill(store, "a/1", 2)
    made = state.make_all(store, [own])
    state.erase(store, "a/1", 1, reason="asked for")
    with pytest.raises(errors.SnapshotUnusable, match="it was dropped: seq 1 of a/1 was erased"):
        state.restore_all(store, [own], made)


def test_a_set_of_many_streams_is_recorded_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-15: more members than one event may list."""
    from tallystick.state import snapshots

    monkeypatch.setattr(snapshots, "SET_MEMBERS_MAX", 3)
    monkeypatch.setattr(snapshots, "DROPPED_MAX", 2)
    own = counting("own")
    for number in range(8):
        fill(store, f"a/{number}", 1)
    found = state.restore_all(store, [own], state.make_all(store, [own]))
    assert len(found.states["own"]) == 8
    fill(store, "b/1", 1)
    made = [state.make(store, counting(f"r{number}"), "b/1") for number in range(5)]
    state.drop(store, "b/1", [entry.id for entry in made if entry is not None], reason="a test")
    assert list(state.entries(store, "b/1")) == []


def test_the_org_of_a_handle_is_not_that_of_the_store(open_store: Any) -> None:
    """EVT-05: a fact has the org of what it is about; a default of the handle claims nothing of the store."""
    store = open_store(defaults={"org": "acme"})
    fill(store, "a/1", 1)
    state.make_all(store, [counting("own")])
    fact = store.read_stream("tally.store/snapshots")[0]
    assert "org" not in fact.metadata
    assert store.read_stream("tally.stream/a:1")[0].metadata == {"org": "acme"}
