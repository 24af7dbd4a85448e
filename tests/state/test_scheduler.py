"""The scheduler under a virtual clock: each trigger fires by itself, once, and after a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tallystick import Store, state
from tallystick.scheduler import Fired, Scheduler
from tallystick.state import Reducer
from tallystick.state.policy import DAY, HOUR, SECOND, Policy
from tallystick.testing.clock import ManualClock

from .conftest import CLOSED, paid

OFF = Policy(stream_events=None, retain_every_ns=10_000 * DAY)


def _knobs(**knobs: int | None) -> Policy:
    return Policy(**({"stream_events": None, "retain_every_ns": 10_000 * DAY} | knobs))  # type: ignore[arg-type]


def _reopened(store: Store, open_store: Callable[..., Store]) -> Store:
    if store.log.engine == "memory":
        return store
    store.close()
    return open_store()


def _triggers(fired: list[Fired]) -> list[tuple[str, str]]:
    return [(item.job, item.trigger) for item in fired]


def test_a_stream_is_snapshotted_every_so_many_events(
    open_store: Callable[..., Store], balance: Reducer, total: Reducer
) -> None:
    """EVT-12: at the count and not before, once, also after a restart; other streams are left alone."""
    store, policy = open_store(), _knobs(stream_events=10)
    store.append("order/1", paid(*range(9)))
    store.append("order/2", paid(1))
    assert Scheduler(store, [balance], policy).tick() == []
    store.append("order/1", paid(9))
    store = _reopened(store, open_store)
    scheduler = Scheduler(store, [balance], policy)
    assert [item.result for item in scheduler.tick()] == ["order/1 at seq 10 by balance"]
    assert scheduler.tick() == []
    assert Scheduler(store, [balance], policy).tick() == []
    store.append("order/1", paid(*range(10)))
    assert _triggers(scheduler.tick()) == [("stream snapshot", "count")]


@pytest.mark.parametrize("trigger", ["count", "size", "time"])
def test_each_trigger_of_the_store_fires_by_itself_and_once(
    open_store: Callable[..., Store], total: Reducer, clock: ManualClock, trigger: str
) -> None:
    """LH-11: one trigger alone is set; it fires when it is due and not before, not twice, and after a restart."""
    knobs = {"count": {"store_events": 5}, "size": {"store_bytes": 600_000}, "time": {"store_ns": 6 * HOUR}}[trigger]
    store, policy = open_store(), _knobs(**knobs)  # type: ignore[arg-type]
    store.append("order/1", paid(1))
    assert Scheduler(store, [total], policy).tick() == []
    _make_due(store, clock, trigger)
    store = _reopened(store, open_store)
    scheduler = Scheduler(store, [total], policy)
    assert _triggers(scheduler.tick()) == [("store snapshot", trigger)]
    assert scheduler.tick() == []
    store = _reopened(store, open_store)
    assert Scheduler(store, [total], policy).tick() == []
    _make_due(store, clock, trigger)
    assert _triggers(Scheduler(store, [total], policy).tick()) == [("store snapshot", trigger)]


def _make_due(store: Store, clock: ManualClock, trigger: str) -> None:
    if trigger == "count":
        store.append("order/1", paid(1, 2, 3, 4, 5))
    elif trigger == "size":
        store.append("doc/1", [_large() for _ in range(20)])
    else:
        store.append("order/1", paid(1))
        clock.advance(seconds=6 * 3600)


def _large() -> object:
    import secrets

    from tallystick import NewEvent

    return NewEvent("doc.saved", {"text": " ".join(secrets.token_hex(2) for _ in range(8000))})


def test_time_waits_for_a_quiet_period(store: Store, total: Reducer, clock: ManualClock) -> None:
    """LH-11: while events keep coming it is put off, and it fires as soon as it is quiet."""
    policy = _knobs(store_ns=6 * HOUR, quiet_ns=60 * SECOND)
    store.append("order/1", paid(1))
    clock.advance(seconds=7 * 3600)
    store.append("order/1", paid(2))
    scheduler = Scheduler(store, [total], policy)
    assert scheduler.tick() == []
    clock.advance(seconds=60)
    assert _triggers(scheduler.tick()) == [("store snapshot", "time")]


def test_the_first_trigger_resets_the_others(store: Store, total: Reducer, clock: ManualClock) -> None:
    """LH-11: after a snapshot by count, the time counts from there."""
    policy = _knobs(store_events=5, store_ns=6 * HOUR, quiet_ns=0)
    store.append("order/1", paid(1))
    clock.advance(seconds=5 * 3600)
    store.append("order/1", paid(1, 2, 3, 4))
    scheduler = Scheduler(store, [total], policy)
    assert _triggers(scheduler.tick()) == [("store snapshot", "count")]
    store.append("order/1", paid(1))
    clock.advance(seconds=2 * 3600)
    assert scheduler.tick() == []
    clock.advance(seconds=4 * 3600)
    assert _triggers(scheduler.tick()) == [("store snapshot", "time")]


def test_a_snapshot_of_many_streams_does_not_set_off_the_next(store: Store, balance: Reducer) -> None:
    """LH-11: the control facts of a snapshot are not counted towards the next one."""
    for number in range(12):
        store.append(f"order/{number}", paid(1))
    scheduler = Scheduler(store, [balance], _knobs(store_events=10))
    assert len(scheduler.tick()) == 1
    assert scheduler.tick() == []


def test_retention_and_validation_run_at_their_intervals(
    open_store: Callable[..., Store], balance: Reducer, clock: ManualClock
) -> None:
    """EVT-12: pruning outside of the window is fired by the scheduler; both jobs once an interval, over restarts."""
    store = open_store()
    policy = Policy(stream_events=3, prune_ns=7 * DAY, retain_every_ns=HOUR, validate_every_ns=DAY)
    store.append("order/1", [*paid(1, 2), CLOSED])
    assert _triggers(Scheduler(store, [balance], policy).tick()) == [("stream snapshot", "count")]
    clock.advance(seconds=8 * 86400)
    store = _reopened(store, open_store)
    scheduler = Scheduler(store, [balance], policy)
    fired = scheduler.tick()
    assert _triggers(fired) == [("retention", "time"), ("validation", "time")]
    assert "pruned order/1 (3)" in fired[0].result
    assert fired[1].result == "nothing is wrong"
    assert scheduler.tick() == []
    store = _reopened(store, open_store)
    assert Scheduler(store, [balance], policy).tick() == []
    clock.advance(seconds=3600)
    assert _triggers(Scheduler(store, [balance], policy).tick()) == [("retention", "time")]
    assert state.fold(store, balance, "order/1").value["cents"] == 3


def test_the_loop_ticks_until_it_is_told_to_stop(store: Store, balance: Reducer) -> None:
    """The library starts no thread by itself; `run` is what a thread of the service runs."""
    store.append("order/1", paid(1, 2))
    stop, told = threading.Event(), []

    def tell(fired: Fired) -> None:
        told.append(fired)
        stop.set()

    Scheduler(store, [balance], _knobs(stream_events=2)).run(stop, every_s=0.01, tell=tell)
    assert _triggers(told) == [("stream snapshot", "count")]


def test_a_stream_that_cannot_be_folded_does_not_stop_the_others(store: Store) -> None:
    """EVT-12: one stream fails and is named, and every other stream has its snapshot."""
    from tallystick.testing import upkeep

    count = state.reducer(name="count", initial={"n": 0})(lambda value, event: {"n": value["n"] + 1})
    for stream in ("order/1", "order/2"):
        store.append(stream, paid(1, 2, 3, 4))
    upkeep.prune(store, "order/1", 2)
    fired = Scheduler(store, [count], _knobs(stream_events=3)).tick()
    assert [("failed" in item.result, item.result.split()[0]) for item in fired] == [
        (True, "order/1"),
        (False, "order/2"),
    ]


def test_an_idle_store_makes_no_snapshots_of_its_own_facts(store: Store, total: Reducer, clock: ManualClock) -> None:
    """LH-11: what the scheduler records itself sets nothing off."""
    policy = Policy(stream_events=None, store_ns=6 * HOUR, retain_every_ns=HOUR, quiet_ns=0)
    store.append("order/1", paid(1))
    scheduler = Scheduler(store, [total], policy)
    made = 0
    for _ in range(48):
        clock.advance(seconds=3600)
        made += sum(item.job == "store snapshot" for item in scheduler.tick())
    assert made == 1


def test_retention_that_has_nothing_to_do_leaves_no_trace(store: Store, total: Reducer, clock: ManualClock) -> None:
    """EVT-12, LH-09: a store that nobody writes to does not grow by itself, however long the scheduler looks at it."""
    store.append("order/1", paid(1))
    scheduler = Scheduler(store, [total], Policy(stream_events=None, prune_ns=30 * DAY, retain_every_ns=HOUR))
    before, looked = store.head(), 0
    for _ in range(24):
        clock.advance(seconds=3600)
        looked += len(scheduler.tick())
        assert scheduler.tick() == []
    assert (looked, store.head()) == (24, before)


def test_a_clock_that_ran_ahead_once_does_not_stop_retention(store: Store, total: Reducer, clock: ManualClock) -> None:
    """EVT-12: a job that was done in the future is due again."""
    policy = Policy(stream_events=None, retain_every_ns=HOUR)
    store.append("order/1", paid(1))
    scheduler = Scheduler(store, [total], policy)
    clock.advance(seconds=365 * 86400)
    assert len(scheduler.tick()) == 1
    clock.advance(seconds=-364 * 86400)
    assert len(scheduler.tick()) == 1


def test_our_own_place_in_the_log_stands_against_no_prune(store: Store, balance: Reducer) -> None:
    """The scheduler's cursor is not a consumer that would miss something."""
    store.append("order/1", [*paid(1), CLOSED])
    Scheduler(store, [balance], _knobs(stream_events=1)).tick()
    store.append("order/1", [*paid(1), CLOSED])
    assert state.prune(store, "order/1", before=5, reducers=[balance], snapshot=True, accept=True) == 4
