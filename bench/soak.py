"""The soak: `python -m bench.soak [--minutes 5]`. Many writers for a long time; the rate holds and the memory is flat.

Two phases, each on a store of its own: 64 tasks that each wait for one event after the other, then a mixture of
single events, batches, writers that compete for the same streams, and readers. Afterwards everything is counted and
verified.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

import tallystick
import tallystick.aio
from bench import machine, payloads, report
from bench.harness import Bar, Row, Spec
from bench.watch import WARM_UP, Watch
from bench.workshop import FULL, Workshop
from tallystick import NewEvent, errors
from tallystick.event import limits, names
from tallystick.store import verify

TASKS = 64
MIXED_SHARE = 0.4  # of the minutes of the single events, and after them
BATCH = 50
SHARED_STREAMS = 4
MINUTES_MIN = 0.05

RATE = Spec(
    name="soak: single acknowledged events, 64 tasks",
    unit="events/s",
    bar=Bar("value", ">=", 10_000),
    covers=("LH-18", "LH-20"),
)
MEMORY = Spec(
    name="soak: memory at the end, single events",
    unit="MB",
    against=f"after {WARM_UP:.0%} of the time",
    bar=Bar("ratio", "<=", 1.2),
    note="resident size of the process that writes",
    covers=("LH-20",),
)
MIXED = Spec(name="soak: many writers mixed", unit="events/s", covers=("LH-20",))
MIXED_MEMORY = Spec(
    name="soak: memory at the end, many writers mixed",
    unit="MB",
    against=f"after {WARM_UP:.0%} of the time",
    bar=Bar("ratio", "<=", 1.2),
    note="resident size of the process that writes and reads",
    covers=("LH-20",),
)
MISSING = Spec(
    name="soak: acknowledged events that are not there",
    unit="events",
    bar=Bar("value", "<=", 0),
    note="both phases: the streams after reopening against what was acknowledged",
    covers=("LH-20",),
)
PROBLEMS = Spec(
    name="soak: problems found by verifying",
    unit="problems",
    bar=Bar("value", "<=", 0),
    note="the store of the mixed phase, every frame, checksum, sequence and link",
    covers=("LH-20",),
)
SPECS = (RATE, MEMORY, MIXED, MIXED_MEMORY, MISSING, PROBLEMS)


class Phase(msgspec.Struct):
    """One store under load until a deadline."""

    store: Any
    watch: Watch
    bodies: list[dict[str, Any]]
    deadline: float
    conflicts: int = 0
    read: int = 0

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self.deadline

    async def append(self, stream: str, events: NewEvent | list[NewEvent], **expected: int) -> Any:
        """One append, counted."""
        started = time.perf_counter()
        done = await self.store.append(stream, events, **expected)
        self.watch.count(1 if isinstance(events, NewEvent) else len(events), time.perf_counter() - started)
        return done

    def event(self, number: int) -> NewEvent:
        """An event to append."""
        return NewEvent(payloads.TYPE, self.bodies[number % len(self.bodies)])


Writer = Callable[[Phase, int], Awaitable[None]]


async def single(phase: Phase, number: int) -> None:
    """One event after the other, each awaited."""
    sent = 0
    while not phase.over:
        await phase.append(f"order/{number}", phase.event(sent))
        sent += 1


async def batch(phase: Phase, number: int) -> None:
    """Batches, each to one of many streams."""
    sent = 0
    while not phase.over:
        events = [phase.event(sent + index) for index in range(BATCH)]
        await phase.append(f"import/{number}-{sent % 100}", events)
        sent += 1


async def compete(phase: Phase, number: int) -> None:
    """Writers that expect to be the only one, and are not."""
    stream, seq = f"shared/{number % SHARED_STREAMS}", 0
    while not phase.over:
        try:
            seq = (await phase.append(stream, phase.event(seq), expected=seq)).seq
        except errors.Conflict as conflict:
            phase.conflicts += 1
            seq = conflict.actual


async def follow(phase: Phase, number: int) -> None:
    """Readers that go through the log again and again."""
    after = 0
    while not phase.over:
        page = await phase.store.read(after=after)
        phase.read += len(page.events)
        after = page.through if page.events else 0
        await asyncio.sleep(0.02)


MIXTURE: tuple[Writer, ...] = (single,) * 5 + (batch,) + (compete,) + (follow,)


async def run_phase(url: str, writers: Sequence[Writer], *, seconds: float) -> Phase:
    """Load a new store with these writers until the time is up, then close it."""
    store = await tallystick.aio.open(url)
    phase = Phase(store, Watch(), payloads.orders(1000), time.perf_counter() + seconds)
    look = asyncio.create_task(phase.watch.look())
    try:
        await asyncio.gather(*(writer(phase, number) for number, writer in enumerate(writers)))
    finally:
        look.cancel()
        await store.close()
    phase.watch.sample()
    return phase


def soak(minutes: float, workshop: Workshop, *, say: Callable[[str], None]) -> list[Row]:
    """Both phases, then the count and the proof."""
    seconds = minutes * 60
    singles_url, mixed_url = f"files:{workshop.place('singles')}", f"files:{workshop.place('mixed')}"
    say(f"{TASKS} tasks, single events, for {seconds:.0f} s …")
    singles = asyncio.run(run_phase(singles_url, (single,) * TASKS, seconds=seconds))
    missing = _missing(singles_url, singles)
    say(f"{TASKS} tasks, mixed, for {seconds * MIXED_SHARE:.0f} s …")
    mixed = asyncio.run(run_phase(mixed_url, MIXTURE * (TASKS // len(MIXTURE)), seconds=seconds * MIXED_SHARE))
    missing += _missing(mixed_url, mixed)
    say("verifying …")
    with tallystick.open(mixed_url, readonly=True) as store:
        problems = verify.verify(store.log).problems
    conflicts = f"{mixed.conflicts:,} conflicts met and retried, {mixed.read:,} events read meanwhile"
    return [
        RATE.row(singles.watch.rate, note=singles.watch.note),
        MEMORY.row(singles.watch.rss_end_mb, singles.watch.rss_warm_mb),
        MIXED.row(mixed.watch.rate, note=f"{mixed.watch.note}; {conflicts}"),
        MIXED_MEMORY.row(mixed.watch.rss_end_mb, mixed.watch.rss_warm_mb),
        MISSING.row(missing),
        PROBLEMS.row(len(problems), note="; ".join(problem.reason for problem in problems[:3])),
    ]


def _missing(url: str, phase: Phase) -> int:
    """How many acknowledged events a fresh look at the store does not find."""
    with tallystick.open(url, readonly=True) as store:
        streams = store.streams(limit=limits.PAGE_EVENTS_MAX)
    there = sum(info.seq for info in streams if not names.is_reserved(names.kind_of(info.stream)))
    return phase.watch.acknowledged - there


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print, write; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description="Write for a long time; watch rate and memory."
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long single events are appended (default 5)")
    options = parser.parse_args(arguments)
    if options.minutes < MINUTES_MIN:
        parser.error(f"--minutes must be at least {MINUTES_MIN}")
    console = report.console()
    with Workshop(FULL) as workshop, console.status("soaking …") as status:
        described = machine.describe(workshop.root) | {"minutes": options.minutes}
        rows = soak(options.minutes, workshop, say=status.update)
    report.show(rows, console=console, title=f"soak, {options.minutes:g} minutes on {described['cores']} cores")
    console.print(f"\nwritten to {report.write('soak', described, rows)}")
    return report.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
