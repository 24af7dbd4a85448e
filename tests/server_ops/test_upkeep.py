"""What the service does by itself: snapshots, retention, validation, forgetting old commands."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick import errors, scheduler
from tallystick.scheduler import Fired, Scheduler
from tallystick.server.upkeep import COMMANDS, SchedulerThread
from tallystick.state import as_reducer, entries, reducer
from tallystick.state.policy import DAY, HOUR, Policy
from tallystick.store.events import Problem
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.testing.clock import ManualClock

WAIT_SECONDS = 30


@reducer(name="count", version=1)
def count(state: dict[str, Any], event: Any) -> dict[str, Any]:
    """How many events there were."""
    return {"count": state.get("count", 0) + 1}


@reducer(name="broken", version=1)
def broken(state: dict[str, Any], event: Any) -> dict[str, Any]:
    """A reducer that cannot."""
    raise ValueError


def with_command(store: Any, key: str) -> None:
    """Append under an idempotency key."""
    record = CommandRecord(CommandKey("", "ada", "append", key), b"\0" * 32, b"{}", store.clock())
    (done,) = store.submit([Request([Part("note/a", [tallystick.NewEvent("noted", {"key": key})])], command=record)])
    assert isinstance(done, list), done


def test_a_service_makes_snapshots_by_itself(serve, monkeypatch):
    """LH-17: the scheduler runs, its jobs are counted, and the snapshot is listed."""
    monkeypatch.setenv("TALLY_SNAPSHOT_STREAM_EVENTS", "3")
    running = serve(reducers=[count])
    running.append("note/a", *({"n": n} for n in range(3)))
    found = running.until("/v1/snapshots", lambda answer: answer["snapshots"])
    assert (found["snapshots"][0]["stream"], found["snapshots"][0]["seq"]) == ("note/a", 3)
    running.scraped_until(
        'tally_snapshots_total{result="made"} 1.0',
        'tally_scheduler_jobs_total{job="stream snapshot",result="done"} 1.0',
        "tally_scheduler_running 1.0",
    )


def test_a_snapshot_that_fails_is_counted_as_failed(serve, monkeypatch):
    """LH-17: snapshot failures are metrics that an alert can watch."""
    monkeypatch.setenv("TALLY_SNAPSHOT_STREAM_EVENTS", "1")
    running = serve(reducers=[broken])
    running.append("note/a", {"n": 1})
    failed = 'tally_scheduler_jobs_total{job="stream snapshot",result="failed"}'
    assert 'tally_snapshots_total{result="failed"} 0.0' not in running.scraped_until(failed)
    assert running.append("note/a", {"n": 2}).status_code == 201


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_old_commands_are_forgotten_and_young_ones_kept(engine, tmp_path):
    """CP-06: records of idempotency are kept for a day and then deleted, however many there are."""
    clock = ManualClock()
    with tallystick.open(f"{engine}:{tmp_path / 'log'}", clock=clock) as store:
        for number in range(3):
            with_command(store, f"old-{number}")
        clock.advance(seconds=25 * 3600)
        with_command(store, "young")
        told: list[Fired] = []
        SchedulerThread(store, (), Policy(retain_every_ns=365 * DAY), tell=told.append).tick()
        assert [fired.result for fired in told if fired.job == COMMANDS] == ["forgot 3"]
        keys = [CommandKey("", "ada", "append", key) for key in ("old-0", "young")]
        assert [store.log.commands.load(key) is None for key in keys] == [True, False]


def test_retention_and_validation_fire_when_they_are_due():
    """LH-17: each job is done once in its time and reported; the thread ends when it is stopped."""
    clock = ManualClock()
    with tallystick.open("memory:", clock=clock) as store:
        store.append("note/a", tallystick.NewEvent("noted", {"n": 1}))
        told: list[Fired] = []
        policy = Policy(stream_events=1, retain_every_ns=HOUR, validate_every_ns=DAY)
        upkeep = SchedulerThread(store, (as_reducer(count),), policy, tell=told.append)
        upkeep.tick()
        clock.advance(seconds=3600)
        upkeep.tick()
        clock.advance(seconds=23 * 3600)
        upkeep.tick()
        upkeep.tick()
        jobs = [fired.job for fired in told if fired.ok]
        assert (jobs.count("stream snapshot"), jobs.count("retention"), jobs.count("validation")) == (1, 2, 1)
        assert len(list(entries(store, "note/a"))) == 1


def test_the_scheduler_ends_with_the_store_and_says_so(tmp_path):
    """If the store is closed the loop ends instead of filling the log, and readiness can say so."""
    store = tallystick.open(f"files:{tmp_path / 'log'}")
    upkeep = SchedulerThread(store, (as_reducer(count),), Policy(stream_events=1), tick_seconds=0.01)
    store.close()
    upkeep.start()
    upkeep._thread.join(WAIT_SECONDS)
    assert (upkeep.is_running, upkeep.failure) == (False, "StoreClosed")


def test_a_validation_that_finds_something_is_not_ok(monkeypatch):
    """LH-17: neither is a job that could not be done; the others of the same tick are."""
    clock = ManualClock()
    with tallystick.open("memory:", clock=clock) as store:
        store.append("note/a", tallystick.NewEvent("noted", {"n": 1}))
        clock.advance(seconds=24 * 3600)
        policy = Policy(stream_events=1, retain_every_ns=HOUR, validate_every_ns=DAY)
        wrong = Problem("snapshot", "it changed")
        monkeypatch.setattr(scheduler.validation, "problems", lambda store, reducers: [wrong])
        monkeypatch.setattr(scheduler, "retain", refuse)
        fired = Scheduler(store, (as_reducer(count),), policy).tick()
    assert [(each.job, each.result, each.ok) for each in fired[1:]] == [
        ("retention", "failed: the store was busy for 1 ms", False),
        ("validation", "it changed", False),
    ]
    assert fired[0].ok


def refuse(*given, **options):
    """Retention on a store that is busy."""
    raise errors.Busy(waited_ms=1)
