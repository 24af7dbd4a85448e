"""kill -9 and lost server processes in the middle of snapshot and prune: both happened, or neither."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tallystick import Store
from tallystick.store.verify import verify

ROUNDS = int(os.environ.get("TALLY_KILL_ROUNDS", "20"))
_MAINTAIN = """
import itertools, sys, tallystick
from tallystick.store.maintenance import Maintenance
from tallystick.testing import upkeep
from tallystick.testing.builders import events
store = tallystick.open(sys.argv[1])
for n in itertools.count():
    stream = f"order/{sys.argv[2]}.{n}"
    store.append(stream, events(20))
    made, cut = upkeep.snapshot_of(store, stream, b"{}"), upkeep.cut_of(store, stream, 10)
    both = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    print(stream, flush=True)
    store.record(both, require=[(stream, 20)], maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))
    print(stream, flush=True)
"""
Spawn = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def spawn(url: str) -> Iterator[Spawn]:
    """Start a process that snapshots and prunes one stream after another, and reports before and after each."""
    children: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _MAINTAIN, url, name]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


def _end_backends(connection: psycopg.Connection[Any], *, kill: bool) -> None:
    """Wait until no other session is connected; `kill` ends those that are."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    if kill:
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}")  # type: ignore[arg-type]
    for _ in range(1000):
        if connection.execute(f"SELECT count(*) {others}").fetchone() == (0,):  # type: ignore[arg-type]
            return
        time.sleep(0.01)
    raise AssertionError("a server process stays")


def _states(store: Store) -> dict[str, tuple[bool, bool, bool]]:
    """For each stream: whether it is cut, whether its events are gone, and whether its snapshot exists."""
    streams = [info.stream for info in store.streams(limit=10_000) if info.stream.startswith("order/")]
    left = {event.stream for event in store.events(over_pruned=True) if event.seq <= 10}
    snapshots = {
        event.data["stream"]
        for info in store.streams(limit=10_000)
        if info.stream.startswith("tally.stream/")
        for event in store.read_stream(info.stream)
        if event.type == "tally.snapshotted" and store.log.snapshots.load(event.id) is not None
    }
    return {stream: (store.cut(stream) is not None, stream not in left, stream in snapshots) for stream in streams}


@pytest.mark.timeout(600)
def test_killed_at_any_moment_both_happened_or_neither(
    spawn: Spawn, reopen: Callable[..., Store], connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """EVT-07: after 20 kills of the client, every other one with its server process, everything reported is stored."""
    reopen().close()
    seed = random.randrange(1 << 32)
    print("seed", seed)
    moments, connection, told = random.Random(seed), connect(), set[str]()
    for number in range(ROUNDS):
        child = spawn(str(number))
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        time.sleep(moments.random() * 0.06)
        if number % 2:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines()
        said = [line.strip() for line in lines]
        told |= {stream for stream in said if said.count(stream) == 2}
        _end_backends(connection, kill=False)
        with reopen() as store:
            states = _states(store)
            assert set(states.values()) <= {(True, True, True), (False, False, False)}
            assert all(states[stream][0] for stream in told)
            assert verify(store.log).problems == []


def _held_up(spawn: Spawn, connect: Callable[..., psycopg.Connection[Any]]) -> Any:
    """A client that prunes, and two connections: one holds up the prune after its events are deleted, one watches."""
    holding = connect(autocommit=False)
    holding.execute("LOCK TABLE tally.pruned IN EXCLUSIVE MODE")
    return holding, connect(), spawn("held")


@pytest.mark.parametrize("kill", [True, False], ids=["with its server process", "only the client"])
def test_killed_between_the_cut_and_its_end(
    spawn: Spawn, reopen: Callable[..., Store], connect: Callable[..., psycopg.Connection[Any]], kill: bool
) -> None:
    """EVT-07: the client is killed after the cut is written and the events are deleted, before the commit."""
    reopen().close()
    holding, watching, child = _held_up(spawn, connect)
    assert child.stdout is not None
    child.stdout.readline()
    for _ in range(1000):
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'tally.pruned'::regclass AND NOT granted"
        if watching.execute(waiting).fetchone() == (1,):
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the prune was not held up")
    child.send_signal(signal.SIGKILL)
    child.wait()
    if kill:
        watching.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'tally.pruned'::regclass AND NOT granted"
        )
    holding.rollback()
    holding.close()
    _end_backends(watching, kill=False)
    with reopen() as store:
        assert _states(store) == {"order/held.0": (False, False, False) if kill else (True, True, True)}
        assert verify(store.log).problems == []


def test_a_lost_server_process_does_not_lose_the_prune(
    spawn: Spawn, reopen: Callable[..., Store], connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """CP-05, EVT-07: a client whose server process ends in the middle finds out what happened, and does it once."""
    reopen().close()
    holding, watching, child = _held_up(spawn, connect)
    assert child.stdout is not None
    said = child.stdout.readline()
    end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'tally.pruned'::regclass AND NOT granted"
    for _ in range(1000):
        if watching.execute(end).fetchone() == (True,):
            break
        time.sleep(0.01)
    holding.rollback()
    assert child.stdout.readline() == said
    child.send_signal(signal.SIGKILL)
    child.wait()
    holding.close()
    _end_backends(watching, kill=False)
    with reopen() as store:
        assert _states(store)["order/held.0"] == (True, True, True)
        assert len(store.read_stream("tally.stream/order:held.0")) == 2
        assert verify(store.log).problems == []
