"""Watching a long run: the rate of every second, how long acknowledgements took, and the memory. Bounded itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import msgspec

from bench import machine

STEPS_PER_MS = 20
STEPS_MAX = 20 * 1000  # one second; whatever took longer counts as that
WARM_UP = 0.2  # memory is compared from here on: caches have been filled by then


class Sample(msgspec.Struct, frozen=True):
    """One look."""

    seconds: float
    acknowledged: int
    rss_mb: float


class Watch:
    """Counts acknowledgements, and looks at the process once a second."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.samples: list[Sample] = []
        self._latencies: Counter[int] = Counter()
        self._started = time.perf_counter()

    def count(self, events: int, seconds: float) -> None:
        """So many events were acknowledged at once, after so long."""
        self.acknowledged += events
        self._latencies[min(int(seconds * 1e3 * STEPS_PER_MS), STEPS_MAX)] += 1

    async def look(self) -> None:
        """Take a sample every second, until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(1)

    def sample(self) -> None:
        """Take a sample now."""
        self.samples.append(Sample(time.perf_counter() - self._started, self.acknowledged, machine.rss_mb()))

    @property
    def rate(self) -> float:
        """Events a second over the whole run."""
        return self.samples[-1].acknowledged / self.samples[-1].seconds

    @property
    def worst_second(self) -> float:
        """The lowest rate between two looks."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        rates = [
            (b.acknowledged - a.acknowledged) / (b.seconds - a.seconds) for a, b in pairs if b.seconds > a.seconds + 0.5
        ]
        return min(rates, default=0.0)

    def latency_ms(self, share: float) -> float:
        """The time within which `share` of the appends were acknowledged."""
        left = sum(self._latencies.values()) * share
        for step, number in sorted(self._latencies.items()):
            left -= number
            if left <= 0:
                return (step + 1) / STEPS_PER_MS
        return 0.0

    @property
    def rss_warm_mb(self) -> float:
        """The memory after the first fifth."""
        warm = self.samples[-1].seconds * WARM_UP
        return next(sample.rss_mb for sample in self.samples if sample.seconds >= warm)

    @property
    def rss_end_mb(self) -> float:
        """The memory at the end: the highest of the last looks, so that a lucky moment does not hide growth."""
        return max(sample.rss_mb for sample in self.samples[-5:])

    @property
    def note(self) -> str:
        """What else there is to say of a run."""
        last = self.samples[-1]
        p50, p99, longest = (self.latency_ms(share) for share in (0.5, 0.99, 1.0))
        return (
            f"{last.acknowledged:,} events in {last.seconds:,.0f} s, worst second {self.worst_second:,.0f}; "
            f"acknowledged after {p50:.2f} ms (p50), {p99:.2f} ms (p99), {longest:.0f} ms (longest)"
        )
