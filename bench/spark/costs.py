"""The cost of a job: a part before its first event, and a part per event, separated by runs at two sizes.

Costs are processor time, since the clock would compare one core with two: a small log is one task. So only the right
figures contain start-up, and the size at which two ways of doing a job are equally fast is computed, not guessed.
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
    """A job over this many events: the shortest time of its runs, and the least processor time."""

    events: int
    best: Turn
    least: Effort

    @property
    def rate(self) -> float:
        """Events per second, with everything except the start of Spark."""
        return self.events / self.best.seconds

    @property
    def told(self) -> str:
        """The processor time that it took."""
        each = 1e6 / self.events
        spent = self.least
        return f"{spent.whole * each:.1f} µs of processor an event (JVM {spent.jvm * each:.1f})"


class Line(msgspec.Struct, frozen=True):
    """Seconds of processor time before the first event, and per event."""

    fixed: float
    each: float


def measured(works: Mapping[int, Callable[[], object]], *, rounds: int) -> dict[int, Job]:
    """The best of several runs at each size, in turns, after one run to warm up."""
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
    """The line through two sizes. If a job was disturbed, the part before the first event may be zero."""
    each = (large.least.whole - small.least.whole) / (large.events - small.events)
    return Line(max(small.least.whole - each * small.events, 0.0), each)


def growth(tiny: Job, small: Job, large: Job) -> float | None:
    """How the cost per event grows: the slope from small to large, divided by the slope from tiny to small."""
    below, above = line(tiny, small).each, line(small, large).each
    return above / below if below > 0 else None
