"""A recorded history of a store of runs on a simulated disk, and the checks that every crash test makes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent, Store
from tallystick.event.model import Event
from tallystick.store.filesystem import FileSystem
from tallystick.store.verify import verify
from tallystick.testing.crash_states import CrashState
from tallystick.testing.simulated_disk import SimulatedDisk

DIRECTORY = f"/simulated-{os.getpid()}"  # SQLite looks for tables beside a log on the real disk: nothing may be there
START_NS = 1_790_000_000_000_000_000
RUNS = ("run/a", "run/b")


def open_store(files: FileSystem, **options: Any) -> Store:
    """Open the store on this file system, with a clock that ticks."""
    ticks = itertools.count(START_NS, 1_000_000)
    options = {"clock": lambda: next(ticks)} | options
    return tallystick.open(f"ndjson:{DIRECTORY}", filesystem=files, **options)


def event(number: int, *, size: int = 20) -> NewEvent:
    """An event that differs from the others."""
    return NewEvent("thing.happened", {"number": number, "text": "x" * size})


def events_of(store: Store) -> dict[str, list[Event]]:
    """The events of each run."""
    return {stream: store.read_stream(stream) for stream in RUNS}


def recovered(files: FileSystem) -> dict[str, list[Event]]:
    """Open for writing, verify everything, and return the events."""
    with open_store(files) as store:
        found = events_of(store)
        verified = verify(store.log)
        assert verified.ok, verified.problems
        assert not store.holes()
        return found


class History(msgspec.Struct):
    """A history: the events of each run, and how many were acknowledged after how many operations."""

    disk: SimulatedDisk
    events: dict[str, list[Event]]
    acknowledged: list[tuple[int, dict[str, int]]]

    def check(self, state: CrashState, found: dict[str, list[Event]]) -> None:
        """Nothing acknowledged is lost, nothing is invented, and a commit in flight is complete or absent."""
        nothing = dict.fromkeys(RUNS, 0)
        least = next((c for when, c in reversed(self.acknowledged) if when <= state.operations), nothing)
        most = next((c for when, c in self.acknowledged if when > state.operations), least)
        for stream in RUNS:
            count = len(found[stream])
            assert count in (least[stream], most[stream]), f"{stream}: {count} events\n{state.describe()}"
            assert found[stream] == self.events[stream][:count], f"{stream}: other events\n{state.describe()}"


class Recorder:
    """Drives a store on a simulated disk and notes each acknowledgement."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.counts = dict.fromkeys(RUNS, 0)
        self.acknowledged: list[tuple[int, dict[str, int]]] = []
        self.store = open_store(self.disk)

    def append(self, stream: str, many: int = 1, *, size: int = 20) -> None:
        """Append in one commit."""
        first = self.counts[stream]
        self.store.append(stream, [event(first + at, size=size) for at in range(many)])
        self.counts = self.counts | {stream: first + many}
        self.acknowledged.append((len(self.disk.operations), self.counts))

    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = open_store(self.disk)

    def history(self) -> History:
        """The recorded history."""
        events = events_of(self.store)
        self.store.close()
        return History(self.disk, events, self.acknowledged)


@pytest.fixture(scope="session")
def history() -> History:
    """Creation, single appends and batches in two runs, closing and reopening."""
    life = Recorder()
    for number in range(5):
        life.append("run/a", size=60 * number)
    life.append("run/b", 6, size=150)
    life.append("run/a", 3, size=300)
    life.reopen()
    life.append("run/a", 2)
    life.append("run/b", 1, size=700)
    for number in range(4):
        life.append("run/b", 1 + number % 2, size=20 * number)
    return life.history()


class Lab:
    """The parts of this file that test modules use."""

    directory = DIRECTORY
    log = f"{DIRECTORY}/runs/a/events.ndjson"
    mark = f"{DIRECTORY}/runs/a/synced"
    open_store: Callable[..., Store] = staticmethod(open_store)
    event: Callable[..., NewEvent] = staticmethod(event)
    recovered: Callable[[FileSystem], dict[str, list[Event]]] = staticmethod(recovered)


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The functions above, for test modules."""
    return Lab()


class Grown(msgspec.Struct):
    """A run after each commit: the image of the disk, never closed, and its events."""

    images: list[dict[str, bytes | None]]
    events: list[Event]
    commits: list[int]

    def file(self, path: str, number: int = -1) -> bytes:
        """The bytes of a file after so many commits."""
        return self.images[number][path] or b""

    def whole(self, path: str, cut: int) -> int:
        """How many commits are complete in the first `cut` bytes of the log."""
        return max(number for number in range(len(self.images)) if len(self.images[number].get(path) or b"") <= cut)


@pytest.fixture(scope="session")
def grown() -> Grown:
    """Commits of one, three, one and two events. Item n is the state after n commits."""
    disk = SimulatedDisk()
    store = open_store(disk)
    store.acquire_lease("run/a")
    images, commits, count = [disk.image()], [0], 0
    for many in (1, 3, 1, 2):
        store.append("run/a", [event(count + at) for at in range(many)])
        count += many
        images.append(disk.image())
        commits.append(count)
    events = store.read_stream("run/a")
    store.close()
    return Grown(images, events, commits)
