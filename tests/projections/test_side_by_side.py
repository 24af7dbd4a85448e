"""Live runners, rebuilds, readers and a writer at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tallystick import errors
from tallystick.event import canonical
from tallystick.projections import Consumer, Live, ViewReader, rebuild
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import CustomerBalance, OrderTotals

EVENTS = 300


class Crew:
    """Threads that work until they are stopped; their errors are raised here."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def hire(self, work: Callable[[], Any]) -> None:
        def working() -> None:
            try:
                work()
            except BaseException as problem:
                self.failures.append(problem)

        self._threads.append(threading.Thread(target=working))
        self._threads[-1].start()

    def dismiss(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join(60)
        assert self.failures == []


@pytest.mark.timeout(120)
def test_a_rebuild_beside_live_runners(open_store: Any, engine: str) -> None:
    """CP-08: readers never see a position or an effect go back, and the final rows are a fold of the log."""
    store, crew = open_store(engine), Crew()
    seen: list[tuple[int, int]] = []

    def read() -> None:
        while not crew.stopped.is_set():
            found = store.log.views.rows("OrderTotals")
            if found.place is not None:
                states = [canonical.decode(row.state) for row in found.rows]
                seen.append((found.place.position, sum(state["placed"] + state["paid"] for state in states)))

    def rebuilding() -> None:
        while not crew.stopped.is_set():
            try:
                rebuild(store, OrderTotals(), batch_events=20)
            except errors.ViewMoved:  # another rebuild was newer
                time.sleep(0.001)

    fill(store, 10)
    crew.hire(read)
    for batch_events in (3, 11):
        runner = Live(store, OrderTotals(), batch_events=batch_events)
        crew.hire(lambda runner=runner: runner.follow(stopped=crew.stopped.is_set))
    crew.hire(rebuilding)
    for number in range(0, EVENTS, 10):
        fill(store, 10, first=number)
        time.sleep(0.002)
    ViewReader(store, "OrderTotals").wait_for(store.head(), timeout=60)
    crew.dismiss()
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


@pytest.mark.timeout(120)
def test_two_rebuilds_leave_one_set_of_rows(open_store: Any, engine: str) -> None:
    """CP-08: the newest rebuild wins, the older one gets `ViewMoved`, and nothing of it is left."""
    store, crew = open_store(engine), Crew()
    fill(store, 60)
    won: list[int] = []

    def once() -> None:
        with suppress(errors.ViewMoved):
            won.append(rebuild(store, CustomerBalance(), batch_events=2).position)

    for _ in range(3):
        crew.hire(once)
    crew.dismiss()
    assert won
    assert stored(store, CustomerBalance()) == folded(store, CustomerBalance())
    rebuild(store, CustomerBalance())
    assert len(store.log.views.places()) == 1


@pytest.mark.timeout(120)
def test_a_consumer_follows(open_store: Any, engine: str) -> None:
    """CP-07: after catching up, new events arrive automatically."""
    store, crew = open_store(engine), Crew()
    fill(store, 20)
    seen: list[int] = []
    consumer = Consumer(store, "mailer", lambda event: seen.append(event.position), save_every=7)
    crew.hire(lambda: consumer.follow(stopped=crew.stopped.is_set))
    fill(store, 20, first=20)
    deadline = time.monotonic() + 60
    while len(seen) < 40 and time.monotonic() < deadline:
        time.sleep(0.005)
    crew.dismiss()
    assert seen == [event.position for event in store.events()]
    assert consumer.position() == store.head()


def test_two_processes_of_one_consumer_lose_nothing(open_store: Any, engine: str) -> None:
    """CP-07: the checkpoint of the faster process counts, and one that an operator set back is respected."""
    store = open_store(engine)
    fill(store, 10)
    slow = Consumer(store, "mailer", lambda event: Consumer(store, "mailer", lambda other: None).catch_up())
    assert slow.catch_up() == store.head()
    fill(store, 5)

    def reset(event: Any) -> None:
        if not done:
            done.append(event.position)
            store.save_checkpoint("mailer", 0)

    done: list[int] = []
    assert Consumer(store, "mailer", reset).step() == 0
    assert Consumer(store, "mailer", reset).catch_up() == store.head()
