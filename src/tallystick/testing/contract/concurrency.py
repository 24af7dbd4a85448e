"""Contract: any number of threads can use one store. Of those that expect the same seq, exactly one wins."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tallystick import NO_STREAM, Store, errors
from tallystick.event.model import Event
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER, MULTI_STREAM
from tallystick.store.verify import verify
from tallystick.testing.builders import event, events, named
from tallystick.testing.contract.harness import Contract, needs

THREADS = 8
APPENDS = 50


def _together(work: Callable[[int], int]) -> list[int]:
    """Run `work` in every thread at once, and raise what it raises."""
    start = threading.Barrier(THREADS)

    def begin(number: int) -> int:
        start.wait(60)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def _follow(store: Store, done: threading.Event, *, limit: int) -> list[Event]:
    """Everything a reader sees that continues after `through` until the writers are done and nothing is left."""
    found: list[Event] = []
    after = 0
    while True:
        finished = done.is_set()
        page = store.read(after=after, limit=limit)
        found += page.events
        if finished and page.through == after:
            return found
        after = page.through


class ConcurrencyContract(Contract):
    """Threads."""

    @pytest.fixture
    def eager_threads(self) -> Iterator[None]:
        """Switch threads as often as the interpreter can, so that races show."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        yield
        sys.setswitchinterval(before)

    def test_exactly_one_of_those_that_expect_the_same_wins(self, store: Store) -> None:
        """CP-02: with exact expectations the number of wins is the seq of the stream, with no gap or repeat."""

        def work(number: int) -> int:
            wins = 0
            for attempt in range(APPENDS):
                head = store.stream_head("run/a")
                expected = head.seq if head else NO_STREAM
                try:
                    done = store.append("run/a", event(number * APPENDS + attempt), expected=expected)
                except errors.Conflict:
                    continue
                assert done.seq == expected + 1
                wins += 1
            return wins

        wins = _together(work)
        found = store.read_stream("run/a")
        assert [item.seq for item in found] == list(range(1, sum(wins) + 1))
        assert len({item.data["n"] for item in found}) == len(found)
        assert verify(store.log).ok

    @needs(ANY_STREAM)
    def test_nothing_is_lost_between_streams(self, store: Store) -> None:
        """CP-02: threads that append to their own streams with ANY lose nothing."""

        def work(number: int) -> int:
            for attempt in range(APPENDS):
                assert store.append(f"order/{number}", event(attempt)).seq == attempt + 1
            return APPENDS

        _together(work)
        for number in range(THREADS):
            assert [item.data["n"] for item in store.read_stream(f"order/{number}")] == list(range(APPENDS))
        positions = [item.position for item in store.read().events]
        assert len(positions) == THREADS * APPENDS
        assert all(before < after for before, after in itertools.pairwise(positions))

    def test_the_same_append_from_every_thread_is_stored_once(self, store: Store) -> None:
        """CP-06: concurrent retries of one append give one event and the same answer to all."""

        def work(number: int) -> int:
            return store.append("run/a", [named(1), named(2)], expected=NO_STREAM).position

        assert len(set(_together(work))) == 1
        assert len(store.read_stream("run/a")) == 2

    @needs(ANY_STREAM, MULTI_STREAM)
    def test_commits_over_crossing_streams_do_not_deadlock(self, store: Store) -> None:
        """CP-05: threads that append to the same streams in different orders all finish, and each commit is whole."""

        def work(number: int) -> int:
            dice = random.Random(number)
            for _ in range(APPENDS // 5):
                streams = dice.sample(["order/a", "order/b", "order/c"], 3)
                store.append_all([(stream, [event(number)], -1) for stream in streams])
            return 0

        _together(work)
        heads = [store.stream_head(stream) for stream in ("order/a", "order/b", "order/c")]
        assert [head.seq for head in heads if head] == [THREADS * (APPENDS // 5)] * 3

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_reader_beside_the_writers_misses_nothing(self, store: Store) -> None:
        """CP-04, EVT-06: a reader that continues after `through` sees every event once, in ascending position."""
        done = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            followers = [pool.submit(_follow, store, done, limit=limit) for limit in (3, 1000)]

            def work(number: int) -> int:
                for attempt in range(APPENDS // 5):
                    store.append(f"order/{number}", events(1 + attempt % 3))
                return 0

            try:
                _together(work)
            finally:
                done.set()
            whole = store.read().events
            for follower in followers:
                assert follower.result(60) == whole

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_reader_never_sees_half_a_commit(self, store: Store, eager_threads: None) -> None:
        """CP-05: the head, and with it every read, moves by whole commits."""
        size, seen, done = 500, set[int](), threading.Event()

        def watch() -> None:
            while not done.is_set():
                seen.add(store.head() % size)
                seen.add(len(store.read(limit=10_000).events) % size)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for number in range(12):
                store.append(f"order/{number}", events(size))
        finally:
            done.set()
            watcher.join(60)
        assert seen == {0}
