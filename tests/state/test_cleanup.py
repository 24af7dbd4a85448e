"""A disk that fills up: retention runs at once, lets go of what it would let go of anyway, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors, state
from tallystick.scheduler import CLEANUP, Scheduler
from tallystick.state import Reducer
from tallystick.state.policy import DAY, HOUR, Policy
from tallystick.store.verify import verify
from tallystick.testing.builders import text
from tallystick.testing.clock import ManualClock
from tallystick.testing.simulated_disk import SimulatedDisk

CAPACITY, WANTED = 400_000, 150_000
POLICY = Policy(stream_events=None, prune_ns=7 * DAY, retain_every_ns=1000 * DAY, free_bytes=WANTED)


@pytest.fixture
def full(tmp_path: Path, clock: ManualClock, total: Reducer) -> Any:
    """A store of old events that a snapshot covers, on a disk that takes no more."""
    disk = SimulatedDisk(capacity_bytes=CAPACITY)
    directory = (tmp_path / "log").as_posix()
    disk.make_dir(directory)
    with tallystick.open(f"files:{directory}", filesystem=disk, clock=clock, segment_bytes_max=50_000) as store:
        for _ in range(6):
            append(store)
        state.make_all(store, [total])
        clock.advance(seconds=8 * 86_400)
        with pytest.raises(errors.NoSpace):
            for _ in range(20):
                append(store)
        yield store


def append(store: Any) -> None:
    """About 30 KB."""
    store.append("order/1", tallystick.NewEvent("order.paid", {"cents": 1, "note": text(30_000)}))


def test_what_retention_allows_goes_when_the_disk_is_nearly_full(full: Any, total: Reducer) -> None:
    """LH-16: before its hour, only what is old and covered; recorded as a fact, and appends go on by themselves."""
    free, head = full.report().facts["free_bytes"], full.stream_head("order/1").seq
    (fired,) = Scheduler(full, [total], POLICY).tick()
    assert (fired.job, fired.trigger) == (CLEANUP, "space")
    assert full.cut("order/1").through == 6
    (fact,) = full.read_stream("tally.schedule/cleanup")
    assert (fact.data["free_before"], fact.data["wanted"]) == (free, WANTED)
    assert fact.data["free_after"] > free + 100_000
    assert "pruned order/1 (6)" in fact.data["done"]
    append(full)
    assert state.fold(full, total).value["cents"] == head + 1
    assert verify(full.log).ok


@pytest.mark.parametrize("prune_ns", [None, 7 * DAY])
def test_nothing_goes_early_without_the_knob(full: Any, total: Reducer, prune_ns: int | None) -> None:
    """LH-16: a policy has to allow it."""
    policy = Policy(stream_events=None, prune_ns=prune_ns, retain_every_ns=1000 * DAY)
    assert Scheduler(full, [total], policy).tick() == []
    assert full.cut("order/1") is None


def test_a_full_disk_with_nothing_to_let_go_is_said_and_stays_refused(full: Any, clock: ManualClock) -> None:
    """LH-16: no reducer folds the stream, so nothing covers it. It is an alarm, once a minute, and no fact."""
    scheduler = Scheduler(full, [], POLICY)
    (fired,) = scheduler.tick()
    assert "failed" in fired.result
    assert "retention removes nothing more" in fired.result
    assert scheduler.tick() == []
    clock.advance(seconds=61)
    assert len(scheduler.tick()) == 1
    assert full.stream_head("tally.schedule/cleanup") is None
    with pytest.raises(errors.NoSpace):
        append(full)


def test_a_disk_with_room_is_left_alone(full: Any, total: Reducer) -> None:
    """LH-16: the limit is a limit."""
    policy = Policy(stream_events=None, prune_ns=7 * DAY, retain_every_ns=HOUR * 100_000, free_bytes=10)
    assert Scheduler(full, [total], policy).tick() == []
    assert full.cut("order/1") is None
