"""Power loss and kill at every operation of snapshots, prunes, erasures and forgotten commands: both or neither."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallystick import NewEvent, Store, errors
from tallystick.event.model import Event
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Cut, Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.crash_states import CrashState, crash_states
from tallystick.testing.simulated_disk import SimulatedDisk

CHUNKS = 4
STATES_MIN = 5_000
APPEND_EVERY = 10
SEGMENT_BYTES_MAX = 2048
KEYS = [CommandKey("acme", "u1", "POST /orders", f"k{number}") for number in range(2)]


class Seen(msgspec.Struct):
    """Everything that a log shows: what is left of its events, cuts, snapshots with their bodies, commands."""

    events: list[Event]
    cuts: list[Cut]
    snapshots: list[tuple[bytes, bytes | None]]
    commands: list[CommandRecord | None]


def see(store: Store) -> Seen:
    """What the log shows now."""
    log = store.log
    bodies = [(id_, log.snapshots.load(id_)) for id_ in log.snapshots.ids()]
    left = store.read(over_pruned=True, limit=1000).events
    return Seen(left, log.cuts(limit=100), bodies, [log.commands.load(key) for key in KEYS])


class Life(msgspec.Struct):
    """A recorded life: after how many operations of the disk a commit was acknowledged, and what was seen then."""

    disk: SimulatedDisk
    seen: list[tuple[int, Seen]]

    def possible(self, operations: int) -> list[Seen]:
        """What may be seen after a crash at this point: all that was acknowledged, with or without what was not yet."""
        count = sum(when <= operations for when, _ in self.seen)
        before = self.seen[count - 1][1] if count else Seen([], [], [], [None] * len(KEYS))
        return [before, *(seen for _, seen in self.seen[count : count + 1])]


def snapshot_and_prune(store: Store) -> None:
    """One commit: a snapshot of order/1 and the cut that it covers."""
    made, cut = upkeep.snapshot_of(store, "order/1", b'{"sum":3}'), upkeep.cut_of(store, "order/1", 3)
    facts = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    store.record(facts, maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))


def run_command(store: Store, number: int) -> None:
    """One command that appends to order/2."""
    record = CommandRecord(KEYS[number], b"h" * 32, b'{"ok":true}', number)
    (outcome,) = store.submit([Request([Part("order/2", two(number))], command=record)])
    assert isinstance(outcome, list)


def two(number: int) -> list[NewEvent]:
    """Two events that differ from all others."""
    return events(2, first=100 + number)


def drop_first(store: Store) -> None:
    """Drop the snapshot of `snapshot_and_prune`."""
    fact = next(found for found in store.read_stream("tally.stream/order:1") if found.type == "tally.snapshotted")
    made = upkeep.snapshot_of(store, "order/1", b"{}", id=fact.id)
    upkeep.drop(store, made)


def erase_and_forget(store: Store) -> None:
    """One commit: an erasure, and the command whose response may repeat what was erased."""
    erasure = upkeep.erasure_of(store.read_stream("order/2")[1])
    both = Maintenance(erasures=(erasure,), erased_responses=(KEYS[0],))
    store.record([upkeep.erased_fact(erasure)], maintenance=both)


STEPS: list[Callable[[Store], object]] = [
    lambda store: store.append("order/1", two(0)),
    lambda store: store.append("order/1", two(1)),
    lambda store: run_command(store, 0),
    snapshot_and_prune,
    lambda store: store.append("order/1", two(2), expected=4),
    lambda store: upkeep.snapshot(store, "order/2", b'{"text":"' + b"xy" * 700 + b'"}'),
    lambda store: run_command(store, 1),
    drop_first,
    erase_and_forget,
    lambda store: store.log.commands.forget(before=5, limit=10),
    lambda store: upkeep.erase(store, "order/1", 5),
    lambda store: upkeep.prune(store, "order/2", 2),
    lambda store: store.append("order/2", two(3)),
]


@pytest.fixture(scope="module")
def life(lab: Any) -> Life:
    """The steps above on a simulated disk, twice closed and opened on the way; segments are small and rotate."""
    disk = SimulatedDisk()
    seen: list[tuple[int, Seen]] = []
    store = lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX)
    for number, step in enumerate(STEPS):
        step(store)
        seen.append((len(disk.operations), see(store)))
        if number in (5, 9):
            store.close()
            store = lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX)
    assert store.log.report().facts["segments"] > 2
    assert store.log.report().facts["snapshot_orphans"] == []
    assert verify(store.log).ok
    store.close()
    return Life(disk, seen)


def test_there_are_enough_states(life: Life) -> None:
    """LH-12, EVT-07: the life has thousands of states, and every step changed what is seen."""
    assert len(list(crash_states(life.disk))) >= STATES_MIN
    assert all(one != other for (_, one), (_, other) in itertools.pairwise(life.seen))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_commit_is_there_whole_or_not_at_all(life: Life, lab: Any, chunk: int) -> None:
    """EVT-07, EVT-14, LH-12, LH-19: fact, cut, erasure, body and record together or none; 0 acknowledged lost."""
    states = list(crash_states(life.disk))
    known: dict[frozenset[tuple[str, bytes | None]], Seen] = {}
    for number, state in enumerate(states[chunk::CHUNKS]):
        image = frozenset(state.image().items())
        if image not in known:
            disk = state.disk()
            known[image] = recovered(lab, state, disk)
            if number % APPEND_EVERY == 0:
                goes_on(lab, state, disk, known[image])
        assert known[image] in life.possible(state.operations), state.describe()


def recovered(lab: Any, state: CrashState, disk: SimulatedDisk) -> Seen:
    """Open for writing after a crash: verified, no file left over, and a reader sees the same."""
    try:
        with lab.open_store(disk) as store:
            found = verify(store.log)
            assert found.ok, found.problems
            assert store.log.report().facts["snapshot_orphans"] == []
            seen = see(store)
            with lab.open_store(disk, readonly=True) as reader:
                assert see(reader) == seen
            return seen
    except (errors.TallyError, OSError, AssertionError) as problem:
        pytest.fail(f"{type(problem).__name__}: {problem}\n{state.describe()}")


def goes_on(lab: Any, state: CrashState, disk: SimulatedDisk, before: Seen) -> None:
    """The log is maintained further, and shows it when it is opened again."""
    with lab.open_store(disk) as store:
        store.append("order/after", two(9))
        upkeep.snapshot(store, "order/after")
        upkeep.prune(store, "order/after", 1)
        assert verify(store.log).ok, state.describe()
    after = recovered(lab, state, disk)
    assert len(after.snapshots) == len(before.snapshots) + 1, state.describe()
    assert len(after.cuts) == len(before.cuts) + 1, state.describe()
