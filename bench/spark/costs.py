"""What a job costs: a part before its first event, and a part for each. Both are told apart by running it at two sizes.

Costs are processor time, since the clock would compare one core with two: a small log is one task. So start-up is in no
figure that it does not belong to, and where two ways of doing a job meet is computed, not guessed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from bench.harness import alternate
from bench.spark import effort
from bench.spark.effort import Effort


class Turn(msgspec.Struct, frozen=True):
    """One run of a job."""

    seconds: float
    effort: Effort


class Job(msgspec.Struct, frozen=True):
    """A job over so many events: the run that took the least time, and what the least one took of the processors."""

    events: int
    best: Turn
    least: Effort

    @property
    def rate(self) -> float:
        """Events a second, everything included but the start of Spark."""
        return self.events / self.best.seconds

    @property
    def told(self) -> str:
        """What it took of the processors."""
        each = 1e6 / self.events
        spent = self.least
        return f"{spent.whole * each:.1f} µs of processor an event (JVM {spent.jvm * each:.1f})"


class Line(msgspec.Struct, frozen=True):
    """Seconds of processor time before the first event, and for each."""

    fixed: float
    each: float


def measured(works: Mapping[int, Callable[[], object]], *, rounds: int) -> dict[int, Job]:
    """The best of several runs at each number of events, taking turns, after one that only warms up."""
    for work in works.values():
        work()
    turns: dict[int, list[Turn]] = {events: [] for events in works}

    def run(events: int) -> float:
        before, started = effort.now(), time.perf_counter()
        works[events]()
        turns[events].append(Turn(time.perf_counter() - started, effort.now().since(before)))
        return turns[events][-1].seconds

    alternate({str(events): partial(run, events) for events in works}, rounds=rounds)
    return {events: _job(events, found) for events, found in turns.items()}


def _job(events: int, turns: list[Turn]) -> Job:
    known = [turn.effort for turn in turns if turn.effort.python >= 0]  # a worker that ended took its time with it
    least = min(known or [turn.effort for turn in turns], key=lambda effort: effort.whole)
    return Job(events, min(turns, key=lambda turn: turn.seconds), least)


def line(small: Job, large: Job) -> Line:
    """The line through two sizes. Of a job that was disturbed it may say that nothing comes before the first event."""
    each = (large.least.whole - small.least.whole) / (large.events - small.events)
    return Line(max(small.least.whole - each * small.events, 0.0), each)


def growth(tiny: Job, small: Job, large: Job) -> float | None:
    """How the cost of one more event grows: the slope from small to large over the one from tiny to small."""
    below, above = line(tiny, small).each, line(small, large).each
    return above / below if below > 0 else None
