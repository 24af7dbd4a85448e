"""What is measured of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.projections import run_inline
from tallystick.store.gauges import Meter, Rates, growth, measure
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events, named
from tallystick.testing.clock import ManualClock
from tallystick.testing.shop import OrderTotals

HOUR = 3600


@pytest.fixture(params=["memory", "sqlite", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store of each engine."""
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path}/log"


def test_appends_are_counted_and_timed(url: str) -> None:
    """CP-14: events, commits, refusals, rate and latency; a retry that writes nothing counts no event."""
    ticks = iter(range(100))
    with tallystick.open(url) as store:
        meter = measure(store, Meter(clock=lambda: float(next(ticks))))
        store.append("order/1", events(3))
        for _ in range(2):
            store.append("order/1", named(1))
        with pytest.raises(errors.Conflict):
            store.append("order/1", event(), expected=99)
        rates = meter.rates()
        assert (rates.events, rates.commits, rates.refused) == (4, 4, 1)
        assert (rates.latency_ms_median, rates.latency_ms_p99) == (1000.0, 1000.0)
        assert rates.events_per_second == 4 / 9
        run_inline(store, OrderTotals())
        assert store.log.inline is not None
        assert store.head() == 4


def test_nothing_was_measured_yet() -> None:
    """CP-14: before the first commit, and before any time has passed, every rate and latency is zero."""
    assert Meter(clock=lambda: 1.0).rates() == Rates(0, 0, 0, 0.0, 0.0, 0.0)


def test_the_latencies_are_the_median_and_the_99th_of_a_hundred() -> None:
    """CP-14: of commits that took 1 to 200 s, in any order, half took longer than the one and 1 % than the other."""
    took = [number * 7 % 201 for number in range(1, 201)]
    ticks = iter([0.0, *(tick for each in took for tick in (1000.0, 1000.0 + each)), 4000.0])
    with tallystick.open("memory:") as store:
        meter = measure(store, Meter(clock=lambda: next(ticks)))
        for number in range(200):
            store.append("order/1", event(number))
        rates = meter.rates()
    assert (rates.latency_ms_median, rates.latency_ms_p99) == (101_000.0, 199_000.0)
    assert rates.events_per_second == 200 / 4000


def test_growth_is_seen_from_a_few_events(url: str) -> None:
    """CP-14: how many events the last hours brought, by the recording clock, and how large the log is."""
    clock = ManualClock()
    with tallystick.open(url, clock=clock) as store:
        assert growth(store).window_events == 0
        for hour in range(10):
            store.append(f"order/{hour}", events(hour + 1, time=0))
            clock.advance(seconds=HOUR)
        found = growth(store, window_ns=3 * HOUR * 1_000_000_000)
        assert (found.head, found.window_events, found.events_per_day) == (55, 8 + 9 + 10, 27 * 8)
        assert (found.bytes or 0) > 0 or url == "memory:"


def test_growth_looks_past_what_was_pruned(url: str) -> None:
    """CP-14: gaps in the middle of the log do no harm."""
    clock: Any = ManualClock()
    with tallystick.open(url, clock=clock) as store:
        for name in ("a", "b", "a", "b"):
            store.append(f"order/{name}", events(5))
            clock.advance(seconds=HOUR)
        upkeep.prune(store, "order/a", 7)
        assert growth(store, window_ns=HOUR * 1_000_000_000 // 2).window_events == 1
