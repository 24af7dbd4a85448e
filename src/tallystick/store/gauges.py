"""Measurements of a log: rate and latency of appends, size and growth."""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from tallystick.store.commit import Outcome, Transaction
from tallystick.store.events import EventLog
from tallystick.store.store import Store
from tallystick.store.views import Inline

_KEPT = 10_000
_SIZES = ("log_bytes", "file_bytes", "table_bytes")  # the names in the reports of the engines
_DAY_NS = 24 * 3600 * 1_000_000_000


class Rates(msgspec.Struct, frozen=True):
    """Appends since the meter started: how many were recorded and refused, their rate, and the latency of commits."""

    events: int
    commits: int
    refused: int
    events_per_second: float
    latency_ms_median: float
    latency_ms_p99: float


class Growth(msgspec.Struct, frozen=True):
    """The size of a log, and how many events were recorded within a window of its own clock."""

    head: int
    bytes: int | None
    window_events: int
    events_per_day: float


class Meter:
    """Counts the appends to a log. Latencies are those of the newest 10,000 commits."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._events = self._commits = self._refused = 0
        self._latencies: deque[float] = deque(maxlen=_KEPT)

    def commit(self, log: EventLog, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Commit, and measure it."""
        began = self._clock()
        outcomes = log.commit(transactions)
        taken = self._clock() - began
        done = [outcome for outcome in outcomes if isinstance(outcome, list)]
        recorded = sum(part.last_seq - part.first_seq + 1 - part.stored for parts in done for part in parts)
        with self._lock:
            self._commits += 1
            self._events += recorded
            self._refused += len(outcomes) - len(done)
            self._latencies.append(taken)
        return outcomes

    def rates(self) -> Rates:
        """The measurements so far."""
        with self._lock:
            ascending = sorted(self._latencies) or [0.0]
            passed = self._clock() - self._began
            return Rates(
                self._events,
                self._commits,
                self._refused,
                self._events / passed if passed > 0 else 0.0,
                ascending[len(ascending) // 2] * 1000,
                ascending[min(len(ascending) - 1, len(ascending) * 99 // 100)] * 1000,
            )


class MeteredLog:
    """A log whose commits are measured. Everything else goes to the log itself."""

    def __init__(self, log: EventLog, meter: Meter) -> None:
        self._log = log
        self._meter = meter

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Commit, and measure it."""
        return self._meter.commit(self._log, transactions)

    @property
    def inline(self) -> Inline | None:
        """The projections that run within commits."""
        return self._log.inline

    @inline.setter
    def inline(self, inline: Inline | None) -> None:
        self._log.inline = inline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def measure(store: Store, meter: Meter | None = None) -> Meter:
    """Measure every append of this handle from now on."""
    meter = meter or Meter()
    store.log = cast(EventLog, MeteredLog(store.log, meter))
    return meter


def growth(store: Store, *, window_ns: int = _DAY_NS) -> Growth:
    """The size of the log, and how fast it grew lately. It reads only a few events, however long the log is."""
    head, floor = store.head(), store.floor()
    since = store.clock() - window_ns
    positions = range(floor + 1, head + 1)
    recent = head - floor - bisect.bisect_left(positions, since, key=lambda at: _recorded(store, at, head))
    size = next((value for name, value in store.report().facts.items() if name in _SIZES), None)
    return Growth(head, size, recent, recent * _DAY_NS / window_ns)


def _recorded(store: Store, position: int, head: int) -> int:
    """When the first event at or after a position was recorded."""
    recorded = store.log.recorded_at(position)
    if recorded is None:
        found = store.log.read(after=position, until=head, limit=1, over_holes=True, over_pruned=True).events
        recorded = store.log.recorded_at(found[0].position) if found else store.clock()
    return recorded or 0
