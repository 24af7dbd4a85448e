"""Threads of one process: readers next to the writing thread, on the writer's handle and on a read-only one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors
from tallystick.store.verify import verify
from tallystick.testing.builders import events, named

COMMITS = 150
READERS = 3


@pytest.fixture
def url(directory: Path) -> str:
    """The log of this test."""
    return f"files:{directory}"


def write(store: Store) -> int:
    """Append commits of 1 to 5 events to four streams. Returns the last position."""
    done = [store.append(f"order/{number % 4}", events(1 + number % 5, first=number)) for number in range(COMMITS)]
    return done[-1].position


def follow(store: Store, last: Callable[[], int | None]) -> list[int]:
    """Read pages until everything was seen, and look up the last event of each. Returns the positions."""
    seen: list[int] = []
    while (end := last()) is None or len(seen) < end:
        after = seen[-1] if seen else 0
        store.wait(after, timeout=0.5)
        page = store.read(after=after, limit=7)
        seen += [item.position for item in page.events]
        if page.events:
            item = page.events[-1]
            assert store.find(item.id) == item
            assert store.read_stream(item.stream, after=item.seq - 1, limit=1) == [item]
            head = store.stream_head(item.stream)
            assert head is not None
            assert head.seq >= item.seq
    return seen


@pytest.mark.parametrize("own_handle", [True, False], ids=["writers-handle", "reading-handle"])
@pytest.mark.parametrize("segment_bytes_max", [700, 4096])
def test_threads_read_while_segments_rotate(url: str, own_handle: bool, segment_bytes_max: int) -> None:
    """LH-06, EVT-06: threads next to the writer see each position once, in order, and no damage."""
    with (
        tallystick.open(url, segment_bytes_max=segment_bytes_max) as writer,
        tallystick.open(url, readonly=True) as reader,
        ThreadPoolExecutor(READERS + 1) as pool,
    ):
        writing = pool.submit(write, writer)
        store = writer if own_handle else reader
        reading = [
            pool.submit(follow, store, lambda: writing.result() if writing.done() else None) for _ in range(READERS)
        ]
        last = writing.result()
        assert [found.result() == list(range(1, last + 1)) for found in reading] == [True] * READERS
        assert store.holes() == []
        assert writer.head() == reader.head() == last
        assert verify(writer.log).ok
    tallystick.open(url).close()  # the lock was given back


def test_threads_on_one_reading_handle_do_not_see_each_other_halfway(url: str) -> None:
    """EVT-06: while one thread reads new events, another on the same handle sees the log before or after them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            tallystick.open(url) as writer,
            tallystick.open(url, readonly=True) as reader,
            ThreadPoolExecutor(READERS + 1) as pool,
        ):
            writing = pool.submit(lambda: [write(writer) for _ in range(5)][-1])
            reading = [pool.submit(hasten, reader, 15 * COMMITS) for _ in range(READERS)]
            assert writing.result() == 15 * COMMITS
            assert [found.result() for found in reading] == [15 * COMMITS] * READERS
            assert reader.holes() == []
    finally:
        sys.setswitchinterval(interval)


def hasten(store: Store, last: int) -> int:
    """Read pages up to a position without waiting. Returns the number of events, which must be in order."""
    after = 0
    while after < last:
        page = store.read(after=after, limit=50)
        assert [item.position for item in page.events] == list(range(after + 1, page.through + 1))
        after = page.through
    return after


def test_a_thread_that_reads_in_the_middle_of_a_rotation_does_not_harm_the_writer(
    url: str, hooked: Any, large: Any
) -> None:
    """LH-06: a reader that finds the name gone looks again, and the writer still knows what it wrote since."""
    writer = tallystick.open(url, filesystem=hooked, segment_bytes_max=4096)
    writer.append("order/1", large)
    writer.append("order/1", large)  # a segment that nobody has read yet
    missed = threading.Event()
    found: list[list[int]] = []
    reading = threading.Thread(target=lambda: found.append([item.position for item in writer.events()]))

    def at_the_rename(operation: str, path: str) -> object:
        if operation != "rename" or not path.endswith("_002.log"):
            return True
        hooked.before = lambda operation, path: missed.set() if path.endswith("/current.log") else None
        reading.start()
        missed.wait(60)
        return False

    hooked.after = at_the_rename
    writer.append("order/1", large)
    reading.join(60)
    assert found in ([[1, 2]], [[1, 2, 3]])
    writer.append("order/1", named(1))  # small: stays in the segment
    assert writer.head() == 4
    assert [item.position for item in writer.events()] == [1, 2, 3, 4]
    assert writer.append("order/1", named(1)).stored == 1
    with pytest.raises(errors.DuplicateId):
        writer.append("order/2", named(1))
    writer.close()
    with tallystick.open(url) as again:
        assert again.head() == 4
        assert verify(again.log).ok


def test_a_thread_that_waits_is_woken_by_the_commit(url: str) -> None:
    """EVT-06: a thread that waits for a position returns as soon as it exists, on either handle."""
    with (
        tallystick.open(url) as writer,
        tallystick.open(url, readonly=True) as reader,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(20):
            waiting = [pool.submit(store.wait, number, timeout=60) for store in (writer, reader)]
            writer.append("order/1", events(1))
            assert [found.result() for found in waiting] == [number + 1] * 2
