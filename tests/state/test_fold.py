"""Folds: whole, from a snapshot, up to a seq, up to a time."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Catalog, NewEvent, Store, errors, state
from tallystick.state import Reducer, Until, reducer

from .conftest import paid


def test_a_stream_is_folded_from_its_first_event(store: Store, balance: Reducer) -> None:
    """EVT-02: every event once, in order; the state says where it stands."""
    done = store.append("order/1", paid(100, 200, 300))
    found = state.fold(store, balance, "order/1")
    assert found.value == {"cents": 600, "types": {"order.paid": 3}, "erased": 0}
    assert (found.seq, found.position, found.link, found.events) == (3, done.position, done.link, 3)


def test_an_unknown_stream_has_the_initial_state(store: Store, balance: Reducer) -> None:
    """No events, no change: the initial state at seq 0."""
    found = state.fold(store, balance, "order/none")
    assert (found.value, found.seq) == ({"cents": 0, "types": {}, "erased": 0}, 0)


def test_a_fold_up_to_a_seq_sees_nothing_behind_it(store: Store, balance: Reducer) -> None:
    """Every prefix has its own state."""
    store.append("order/1", paid(1, 2, 4, 8))
    sums = [state.fold(store, balance, "order/1", until=Until(seq=seq)).value["cents"] for seq in range(5)]
    assert sums == [0, 1, 3, 7, 15]


def test_a_fold_up_to_a_time_is_the_longest_prefix_before_a_later_event(store: Store, balance: Reducer) -> None:
    """Settled 26: times need not rise; an event after the first later one is not seen, though its own time is early."""
    times = [10, 30, 20, 40]
    store.append("order/1", [NewEvent("order.paid", {"cents": 2**i}, time=t) for i, t in enumerate(times)])
    at = {t: state.fold(store, balance, "order/1", until=Until(time=t)).value["cents"] for t in (9, 10, 25, 30, 39, 40)}
    assert at == {9: 0, 10: 1, 25: 1, 30: 7, 39: 7, 40: 15}


def test_a_snapshot_is_not_used_for_a_time_before_its_latest_event(store: Store, balance: Reducer) -> None:
    """Settled 26: a snapshot knows the latest time it covers, so `--at TIME` gives the same without it."""
    times = [10, 30, 20]
    store.append("order/1", [NewEvent("order.paid", {"cents": 2**i}, time=t) for i, t in enumerate(times)])
    state.make(store, balance, "order/1")
    found = state.fold(store, balance, "order/1", until=Until(time=25))
    assert (found.value["cents"], found.snapshot) == (1, None)
    assert state.fold(store, balance, "order/1", until=Until(time=30)).snapshot is not None


def test_the_whole_store_is_folded_in_order_of_position(store: Store, total: Reducer) -> None:
    """LH-15: a reducer of scope "store" sees every user's event, and no control fact."""
    store.append("order/1", paid(1))
    store.append("order/2", paid(2, 4))
    store.configure(secrets="off")
    found = state.fold(store, total)
    assert found.value == {"cents": 7, "streams": {"order/1": 1, "order/2": 2}}


def test_upcasters_apply_on_the_way(open_store: Any) -> None:
    """LH-01: a reducer sees the current version of every event."""
    pydantic = pytest.importorskip("pydantic")
    catalog = Catalog()

    class One(pydantic.BaseModel):
        euros: int

    class Two(pydantic.BaseModel):
        cents: int

    catalog.register("order.paid", One, version=1)
    catalog.register("order.paid", Two, version=2)
    catalog.upcaster("order.paid", from_version=1)(lambda data: {"cents": 100 * data["euros"]})
    store = open_store(catalog=catalog)
    store.append("order/1", [NewEvent("order.paid", {"euros": 3}, version=1), NewEvent("order.paid", {"cents": 5})])
    adds = reducer(name="sum", initial={"cents": 0})(lambda s, e: {"cents": s["cents"] + e.data["cents"]})
    assert state.fold(store, adds, "order/1").value == {"cents": 305}


def test_a_failing_reducer_is_named_with_the_event(store: Store) -> None:
    """The error says which reducer, which event and why; the log is unchanged."""
    store.append("order/1", paid(1, 2))

    @reducer(name="broken", initial=0)
    def broken(value: Any, event: Any) -> Any:
        return value + event.data["missing"]

    with pytest.raises(errors.ReducerFailed, match=r"'broken' failed at seq 1 of 'order/1': KeyError"):
        state.fold(store, broken, "order/1")


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, {"t": (1,)}, {"n": float("nan")}, {"n": 2**64}],
    ids=["object", "key", "tuple", "nan", "big"],
)
def test_a_state_that_is_not_json_is_refused(store: Store, value: Any) -> None:
    """EVT-02: a state has canonical bytes, or no snapshot is made of it."""
    store.append("order/1", paid(1))
    odd = reducer(name="odd")(lambda state, event: value)
    with pytest.raises(errors.ReducerFailed, match="not plain JSON"):
        state.make(store, odd, "order/1")
    assert store.log.snapshots.ids() == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (type("NoName", (), {"version": 1, "initial": dict, "apply": min}), "its name"),
        (type("NoVersion", (), {"name": "x", "initial": dict, "apply": min}), "its version"),
        (type("NoApply", (), {"name": "x", "version": 1, "initial": dict}), "apply"),
        (type("Scope", (), {"name": "x", "version": 1, "initial": dict, "apply": min, "scope": "all"}), "scope"),
        (type("Args", (), {"__init__": lambda self, needed: None}), "without arguments"),
    ],
    ids=["name", "version", "apply", "scope", "arguments"],
)
def test_what_is_no_reducer_is_refused_by_what_it_lacks(given: Any, reason: str) -> None:
    """Bad input: the error names the reducer and the missing part."""
    with pytest.raises(errors.ReducerInvalid, match=reason):
        state.as_reducer(given)


def test_two_reducers_of_one_name_are_refused(balance: Reducer) -> None:
    """A snapshot names its reducer, so a name means one."""
    with pytest.raises(errors.ReducerInvalid, match="two reducers"):
        state.registry([balance, balance])


def test_a_reducer_is_refused_what_it_does_not_fold(store: Store, balance: Reducer, total: Reducer) -> None:
    """A reducer of streams needs a stream of its kinds, one of the store takes none; facts are folded by nobody."""
    only_runs = reducer(name="runs", kinds=["run"])(lambda value, event: value)
    for item, stream in ((balance, ""), (total, "order/1"), (only_runs, "order/1"), (balance, "tally.store/settings")):
        with pytest.raises(errors.ReducerInvalid):
            state.fold(store, item, stream)


def test_a_reducer_that_depends_on_the_order_of_keys_is_named(store: Store) -> None:
    """The double fold, once through JSON with keys turned round, names the first event at which they part."""
    store.append("order/1", [NewEvent("set", {"key": key}) for key in "bca"])

    @reducer(name="ordered", initial={"keys": {}, "first": ""})
    def ordered(value: Any, event: Any) -> Any:
        keys = value["keys"] | {event.data["key"]: 1}
        return {"keys": keys, "first": next(iter(keys))}

    with pytest.raises(errors.FoldDiverged) as found:
        state.check_determinism(store, ordered, "order/1")
    assert found.value.seq == 3


def test_a_sound_reducer_passes_the_double_fold(store: Store, balance: Reducer) -> None:
    """A function of its JSON state gives the same either way."""
    store.append("order/1", paid(1, 2, 3))
    assert state.check_determinism(store, balance, "order/1").value == state.fold(store, balance, "order/1").value
