"""Processes that follow a log through rotation, pruning, compaction, compression and erasure."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tallystick
from tallystick import NewEvent
from tallystick.store.verify import verify
from tallystick.testing import upkeep

FOLLOWER = Path(__file__).with_name("follower.py")
BOUND_SECONDS = 60
ROUNDS = 14
FOLLOWERS = 2
SEGMENT_BYTES_MAX = 20_000
KEPT = "order/kept"


def follower(directory: Path, seed: int) -> subprocess.Popen[str]:
    """A process that is ready to follow."""
    command = [sys.executable, str(FOLLOWER), str(directory), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_follower_misses_nothing_and_sees_nothing_twice(directory: Path) -> None:
    """LH-09: whatever is rewritten meanwhile, each event that was not pruned comes once, and can be found again."""
    kept = rewritten = 0
    with tallystick.open(f"files:{directory}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        store.append("order/first", NewEvent("thing.happened", {}))
        followers = [follower(directory, seed) for seed in range(FOLLOWERS)]
        try:
            for number in range(ROUNDS):
                kept += fill(store)
                head = store.stream_head("order/pruned")
                assert head is not None
                upkeep.prune(store, "order/pruned", head.seq - 5)
                upkeep.erase(store, "order/erased", number + 1)
                done = store.log.reclaim(
                    compress_before=time.time_ns() if number % 2 else None, progress=lambda done: None
                ).done
                rewritten += len(done)
            store.append("order/first", NewEvent("log.ended", {}))
            said = [ended(process) for process in followers]
        finally:
            for process in followers:
                process.kill()
                process.wait()
        assert verify(store.log).problems == []
        assert rewritten > ROUNDS
        assert {item.header.generation > 1 for item in store.log._view.segments} == {True, False}  # type: ignore[attr-defined]
    assert said == [{"kept": kept, "problems": [], "holes": []}] * FOLLOWERS


def fill(store: Any) -> int:
    """Append about two segments of events to three streams. Returns how many to keep."""
    for _ in range(40):
        store.append("order/pruned", [NewEvent("thing.happened", {"text": "x" * 300})] * 2)
        store.append(KEPT, NewEvent("thing.happened", {"text": "x" * 200}))
    store.append("order/erased", NewEvent("thing.happened", {"text": "x" * 100}))
    return 40


def ended(process: subprocess.Popen[str]) -> Any:
    """The last line of a follower."""
    output, _ = process.communicate(timeout=BOUND_SECONDS)
    return json.loads(output)
