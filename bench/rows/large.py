"""Opening a large store: how long, and how much memory, idle and replaying. Each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Bar, Row, Samples, Spec, joined, measures
from bench.workshop import Workshop

OPENING = Spec(
    name="files: opening 1,000,000 events after a clean close",
    unit="s",
    bar=Bar("value", "<=", 1.0),
    note="a new process, imports not counted, files in the page cache",
    covers=("LH-18",),
)
IDLE = Spec(
    name="files: memory after opening 1,000,000 events",
    unit="MB",
    bar=Bar("value", "<=", 100),
    note="resident, the interpreter and all imports included; the lowest round",
    covers=("LH-18",),
)
REPLAYING = Spec(
    name="files: memory while replaying 1,000,000 events",
    unit="MB",
    bar=Bar("value", "<=", 300),
    note="the highest resident size of a process that opens and replays",
    covers=("LH-18",),
)


@measures(OPENING, IDLE, REPLAYING)
def large(workshop: Workshop) -> Iterator[Row]:
    url, rounds = workshop.large_store(), workshop.scale.rounds
    opened = [probe("open", url) for _ in range(rounds)]
    seconds = Samples([found["seconds"] for found in opened])
    note = workshop.scale.large_note
    yield OPENING.row(seconds.lowest, note=joined(seconds.spread, note))
    yield IDLE.row(min(found["rss_mb"] for found in opened), note=note)
    yield REPLAYING.row(probe("replay", url)["peak_mb"], note=note)


def probe(action: str, url: str, *arguments: str) -> dict[str, float]:
    """What a process of its own says it took."""
    command = [sys.executable, "-m", "bench.probe", action, url, *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    found: dict[str, float] = json.loads(done.stdout)
    return found
