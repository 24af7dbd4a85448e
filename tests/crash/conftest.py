"""A recorded life of a file log, and what every crash test asks of a disk: open it, read it, verify it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent, Store, match
from tallystick.event.model import Event
from tallystick.store.filesystem import FileSystem
from tallystick.store.query import Condition
from tallystick.store.repair import repair
from tallystick.store.verify import verify
from tallystick.testing.builders import text
from tallystick.testing.crash_states import CrashState
from tallystick.testing.simulated_disk import SimulatedDisk

DIRECTORY = f"/simulated-{os.getpid()}"  # SQLite looks for beside.db on the real disk: nothing may be there
START_NS = 1_790_000_000_000_000_000
STEP_NS = 1_000_000
SEGMENT_BYTES_MAX = 8192

Image = dict[str, bytes | None]


def open_store(files: FileSystem, **options: Any) -> Store:
    """Open the log on this file system, with small segments and a clock that ticks."""
    ticks = itertools.count(START_NS, STEP_NS)
    options = {"segment_bytes_max": 4096, "clock": lambda: next(ticks)} | options
    return tallystick.open(f"files:{DIRECTORY}", filesystem=files, **options)


def event(number: int, *, size: int = 20) -> NewEvent:
    """An event that differs from the others, with one of three tags."""
    return NewEvent("thing.happened", {"number": number, "text": text(size, seed=number)}, tags=[f"n:{number % 3}"])


def events_of(store: Store) -> list[Event]:
    """Every event but the control facts, which recovery may add."""
    return [item for item in store.events() if not item.stream.startswith("tally.")]


def recovered(files: FileSystem, *, settle: bool = False) -> list[Event]:
    """Open for writing, verify everything, and return the events. Nothing is on record, unless `settle` clears it."""
    with open_store(files) as store:
        found = (repair(store) if settle else None) or verify(store.log)
        assert not store.log.damage.known()
        assert found.ok, found.problems
        assert not store.holes()
        check_tags(store)
        return events_of(store)


def check_tags(store: Store) -> None:
    """TAG-02: whatever became of the files of tags, queries match what is there."""
    known = [*store.events(over_pruned=True), *store.log.pruned_events()]
    for tag in ("n:0", "n:1", "n:2"):
        found = store.log.matches(Condition(match(tags=[tag])), limit=len(known))  # type: ignore[attr-defined]
        assert found == sorted(each.position for each in known if tag in each.tags), tag


def damage(image: Image, how: str) -> None:
    """Lose the second sealed segment ("missing"), or flip a bit in it ("sealed"), or in the current one ("current")."""
    sealed = sorted(path for path in image if path.endswith("_002.log"))[0]
    path = f"{DIRECTORY}/current.log" if how == "current" else sealed
    data = bytearray(image.pop(path) or b"")
    if how != "missing":
        data[len(data) // 2] ^= 1
        image[path] = bytes(data)


class History(msgspec.Struct):
    """A run on a simulated disk: the events in order, and how many were acknowledged after how many operations."""

    disk: SimulatedDisk
    events: list[Event]
    acknowledged: list[tuple[int, int]]

    def at(self, operations: int) -> tuple[int, int]:
        """How many events must be there after a crash at this point, and how many more may be: the commit in flight."""
        count = max((count for when, count in self.acknowledged if when <= operations), default=0)
        following = min((count for when, count in self.acknowledged if when > operations), default=count)
        return count, following

    def check(self, state: CrashState, found: list[Event]) -> None:
        """Nothing acknowledged is lost, nothing is invented, and a commit in flight is there whole or not at all."""
        least, most = self.at(state.operations)
        assert len(found) in (least, most), f"{len(found)} events, not {least} or {most}\n{state.describe()}"
        assert found == self.events[: len(found)], f"other events\n{state.describe()}"


class Recorder:
    """Drives a store on a simulated disk and notes each acknowledgement."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.acknowledged: list[tuple[int, int]] = []
        self.count = 0
        self.store = open_store(self.disk, segment_bytes_max=SEGMENT_BYTES_MAX)

    def append(self, *parts: tuple[str, int], size: int = 20) -> None:
        """Append in one commit: (stream, how many events) each."""
        drafts = [(stream, [event(self.count + at, size=size) for at in range(many)], -1) for stream, many in parts]
        self.store.append_all(drafts)
        self.count += sum(many for _, many in parts)
        self.acknowledged.append((len(self.disk.operations), self.count))

    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = open_store(self.disk, segment_bytes_max=SEGMENT_BYTES_MAX)

    def history(self) -> History:
        """What happened."""
        events = events_of(self.store)
        self.store.close()
        assert len(events) == self.count
        return History(self.disk, events, self.acknowledged)


def record_life() -> History:
    """Creation, single appends, batches, several streams at once, rotations, a lease, closing and reopening."""
    run = Recorder()
    for number in range(17):
        run.append((f"order/{number % 2}", 1), size=30 * number)
    run.append(("order/batch", 12), size=100)  # rotates
    run.append(("order/0", 2), ("order/1", 1), ("cart/a", 3))
    run.append(("run/one", 1))
    for number in range(17):
        run.append((f"order/{number % 3}", 1))
    run.reopen()
    run.append(("order/batch", 8), size=200)  # rotates
    run.append(("run/one", 2), ("order/1", 1))
    run.append(("cart/b", 20), size=200)  # rotates, and is nearly a segment by itself
    for number in range(17):
        run.append((f"order/{number % 3}", 1), size=20 * number)  # rotates on the way
    run.append(("order/0", 1), ("run/one", 1))
    return run.history()


@pytest.fixture(scope="session")
def history() -> History:
    """The recorded life."""
    return record_life()


class Grown(msgspec.Struct):
    """A small log after each of its appends: the disk's image each time, its last one being after a kill."""

    images: list[Image]
    events: list[Event]

    def log(self, number: int = -1) -> bytes:
        """The bytes of the current segment after so many appends."""
        return self.images[number][f"{DIRECTORY}/current.log"] or b""

    def mark(self, number: int = -1) -> bytes:
        """The bytes of the synced mark after so many appends."""
        return self.images[number][f"{DIRECTORY}/synced"] or b""


@pytest.fixture(scope="session")
def grown() -> Grown:
    """Six appends to a log that was never closed; item n is after n appends."""
    disk = SimulatedDisk()
    store = open_store(disk)
    images = [disk.image()]
    for number in range(6):
        store.append(f"order/{number % 2}", event(number))
        images.append(disk.image())
    events = events_of(store)
    store.close()
    return Grown(images, events)


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The functions above, for test modules."""
    return Lab()


class Lab:
    """What test modules use of this file."""

    directory = DIRECTORY
    start_ns = START_NS
    open_store: Callable[..., Store] = staticmethod(open_store)
    event: Callable[..., NewEvent] = staticmethod(event)
    events_of: Callable[[Store], list[Event]] = staticmethod(events_of)
    check_tags: Callable[[Store], None] = staticmethod(check_tags)
    damage: Callable[[Image, str], None] = staticmethod(damage)
    recovered: Callable[[FileSystem], list[Event]] = staticmethod(recovered)
