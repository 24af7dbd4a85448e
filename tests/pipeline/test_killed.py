"""A real SIGKILL in the middle of an archive run, at random moments, while the log grows and is pruned."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent
from tallystick.event.model import Event
from tallystick.pipeline import manifest, shelving
from tallystick.pipeline.archive import archive
from tallystick.pipeline.verifying import verify
from tallystick.pipeline.whole import whole

KILLS = 20
CHILD = """
from tallystick.pipeline import session
from tallystick.pipeline.archive import archive
spark = session("local[2]", memory="512m")
print("ready", flush=True)
for _ in range(1000):
    archive(spark, {url!r}, {place!r}, bucket_events=7, grace_seconds=0)
    print("archived", flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_for_real_and_run_again(
    spark: SparkSession,
    files_url: str,
    tmp_path: Path,
    rows_of: Callable[[DataFrame], list[Event]],
    prune: Callable[..., None],
) -> None:
    """PIPE-02: twenty kills: what the manifest lists is whole each time; in the end archive and tail are the log."""
    place, chance = tmp_path / "archive", random.Random(11)
    everything: dict[bytes, Event] = {}
    for round_ in range(KILLS):
        with tallystick.open(files_url) as store:
            for number in range(40):
                event = NewEvent("order.noted", {"cents": number, "round": round_})
                store.append(f"order/o{number % 5}", event)
            everything |= {event.id: event for event in store.events(over_pruned=True)}
        _kill_in_the_middle(files_url, place, chance)
        if (place / manifest.NAME).exists():
            _require_hashes(place)
        if round_ % 5 == 4:
            archive(spark, files_url, place, bucket_events=7)
            prune(files_url, f"order/o{round_ % 3}", 8 * round_)
            with tallystick.open(files_url) as store:
                everything |= {event.id: event for event in store.events(over_pruned=True)}
    found = rows_of(whole(files_url, place).table(spark))
    assert found == sorted(everything.values(), key=lambda event: event.position)
    assert verify(spark, files_url, place).problems == []


def _kill_in_the_middle(url: str, place: Path, chance: random.Random) -> None:
    code = CHILD.format(url=url, place=str(place))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 6))
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=30)


def _require_hashes(place: Path) -> None:
    for bucket in manifest.load(place).buckets:
        for file in (bucket.events, bucket.heads):
            assert file is None or shelving.hash_of(place / file.name) == file.sha256
