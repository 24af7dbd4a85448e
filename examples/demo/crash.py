"""Chapter: a writer is killed half-way, the store recovers, another writer finishes the work."""

from __future__ import annotations

import time

import tallystick
from examples.demo import traffic
from examples.demo.child import Ack, WriterProcess
from examples.demo.stage import Chapter, Stage


def play(stage: Stage) -> bool:
    """Write, kill, reopen, continue."""
    half = stage.options.events // 2
    with WriterProcess(stage.url, events=stage.options.events, seed=stage.options.seed) as first:
        _follow(stage, first, "first writer ", kill_at=half)
    acknowledged = sum(stage.acknowledged)
    stage.say(
        f"SIGKILL to process {first.pid}, while it was appending. No handler ran, nothing was closed.", style="bold red"
    )
    unharmed = _reopen(stage, acknowledged)
    options = stage.options
    with WriterProcess(
        stage.url, events=options.events, seed=options.seed, start=acknowledged, pretend=options.pretend
    ) as second:
        again = _follow(stage, second, "second writer")
    if again and again.stored:
        stage.say(f"the interrupted commit was sent again: {again.stored} events known by id, none written twice")
    return unharmed


def _follow(stage: Stage, writer: WriterProcess, name: str, *, kill_at: int | None = None) -> Ack | None:
    """Note every acknowledgement, and kill when it is time. Returns the first one."""
    opening: Ack | None = None
    before = sum(stage.acknowledged)
    with stage.progress() as progress:
        bar = progress.add_task(name, total=stage.options.events, completed=before)
        for ack in writer.acks():
            opening = opening or ack
            stage.acknowledged[ack.first : ack.first + ack.events] = b"\1" * ack.events
            progress.advance(bar, ack.events)
            if kill_at is not None and ack.first + ack.events >= kill_at and not writer.killed:
                writer.kill()
    if writer.seconds:
        stage.rates[name.strip()] = (sum(stage.acknowledged) - before) / writer.seconds
    return opening


def _reopen(stage: Stage, acknowledged: int) -> bool:
    """Show what recovery found; return whether every acknowledged event is there."""
    started = time.perf_counter()
    with tallystick.open(stage.url) as store:
        taken_ms = (time.perf_counter() - started) * 1e3
        recovered = store.report().recovered
        numbers = [traffic.event_number(event.id) for event in store.events()]
    found = sum(number is not None for number in numbers)
    missing = acknowledged - sum(number is not None and number < acknowledged for number in numbers)
    stage.table(
        [
            ("reopened in", f"{taken_ms:,.0f} ms", ""),
            ("acknowledged", f"{acknowledged:,}", "the store told the writer: on disk"),
            ("found", f"{found:,}", _in_flight(found - acknowledged) if found > acknowledged else ""),
            ("lost", f"{missing:,}", ""),
        ]
    )
    for line in recovered:
        stage.say(f"recovery: {line}", style="cyan")
    return missing == 0


def _in_flight(more: int) -> str:
    return f"{more} more were in flight when it died"


CHAPTER = Chapter("A writer is killed half-way", play)
