"""SIGKILL at random moments: of archive runs while retention prunes, and of a streaming query."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import whole_log
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.state import Reducer, as_reducer

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
ARCHIVING = """
from tallystick.pipeline import session
from tallystick.pipeline.jobs.archive import archive
spark = session("local[2]", memory="512m", settings={settings!r})
print("ready", flush=True)
for _ in range(1000):
    archive(spark, {url!r}, {place!r}, bucket_events=7, grace_seconds=0)
    print("archived", flush=True)
"""
STREAMING = """
import sys
sys.path.insert(0, {here!r})
from test_killed import Visits
from tallystick.pipeline import session
from tallystick.pipeline.jobs.stream import stream
spark = session("local[2]", memory="512m", settings={settings!r})
print("ready", flush=True)
for _ in range(1000):
    stream(spark, {url!r}, Visits(), {place!r}, batch_events=9).awaitTermination()
"""


class Visits(Projection):
    """The events of every stream, in order: a lost, repeated or misplaced event gives another state."""

    types = ("order.noted",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"events": 0, "sum": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more."""
        return {"events": found["events"] + 1, "sum": (found["sum"] * 31 + event.data["cents"]) % 1_000_003}


class Sum:
    """Adds up amounts."""

    name, version = "killed.sum", 1

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"cents": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One event more."""
        return {"cents": found["cents"] + event.data["cents"]}


@pytest.fixture
def adding() -> Reducer:
    """A reducer to snapshot with."""
    return as_reducer(Sum)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_an_archive_killed_beside_retention_loses_nothing(
    spark: SparkSession,
    files_url: str,
    tmp_path: Path,
    rows_of: Callable[[DataFrame], list[Event]],
    adding: Reducer,
    kills: int,
) -> None:
    """PIPE-02, PIPE-06: listed files are whole after every kill, and archive and tail together are the log."""
    place, chance = tmp_path / "archive", random.Random(kills)
    everything: dict[bytes, Event] = {}
    for round_ in range(kills):
        _append(files_url, round_, everything)
        with _killed(ARCHIVING, files_url, place) as child:
            pruned_until = time.monotonic() + chance.uniform(0, 5)
            while time.monotonic() < pruned_until:
                _prune_what_is_archived(files_url, place, adding)
            _kill(child)
        if (place / manifest.name_of(1)).exists():
            _require_hashes(place)
    archive(spark, files_url, place, bucket_events=7)
    _prune_what_is_archived(files_url, place, adding)
    with tallystick.open(files_url) as store:
        assert store.log.floor() > 0
        everything |= {event.id: event for event in store.events(over_pruned=True)}
    found = rows_of(whole_log(files_url, place).table(spark))
    assert found == sorted(everything.values(), key=lambda event: event.position)
    assert verify(spark, files_url, place).problems == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_streaming_query_killed_ten_times_loses_and_repeats_nothing(files_url: str, tmp_path: Path) -> None:
    """PIPE-07: after ten kills at random moments, the rows are those of a fold in one process."""
    chance = random.Random(3)
    for round_ in range(10):
        _append(files_url, round_, {})
        with _killed(STREAMING, files_url, tmp_path / "checkpoint") as child:
            time.sleep(chance.uniform(0, 8))
            _kill(child)
    with _killed(STREAMING, files_url, tmp_path / "checkpoint") as child, tallystick.open(files_url) as store:
        head = max(event.position for event in store.events() if event.type == "order.noted")
        while _position(store) < head:
            assert child.poll() is None
            time.sleep(0.2)
        streamed = ViewReader(store, "Visits").fingerprint()
        rebuild_in_process(store, Visits())
        made = ViewReader(store, "Visits").fingerprint()
    assert (made.rows, made.digest) == (streamed.rows, streamed.digest)
    assert made.rows == 5


def _append(url: str, round_: int, everything: dict[bytes, Event]) -> None:
    with tallystick.open(url) as store:
        for number in range(40):
            store.append(f"order/o{number % 5}", NewEvent("order.noted", {"cents": number, "round": round_}))
        everything.update({event.id: event for event in store.events(over_pruned=True)})


def _prune_what_is_archived(url: str, place: Path, adding: Reducer) -> None:
    """Retention while an archive grows: it prunes the events that the archive holds."""
    if not (place / manifest.name_of(1)).exists():
        time.sleep(0.05)
        return
    with tallystick.open(url) as store:
        held = ArchiveCoverage(place, store)
        for info in store.streams():
            if not info.stream.startswith("order/"):
                continue
            cut = store.cut(info.stream)
            gone = cut.through if cut is not None else 0
            old = [
                event.seq
                for event in store.log.read_stream(info.stream, after=gone, limit=1000)
                if event.position <= held.through
            ]
            if old:
                state.prune(store, info.stream, before=old[-1] + 1, reducers=[adding], snapshot=True, archive=held)


def _position(store: tallystick.Store) -> int:
    return max((place.position for place in store.log.views.places()), default=0)


class _killed:  # noqa: N801 - reads as what happens to the child
    """A child process that works until it is killed, together with the processes that it started."""

    def __init__(self, code: str, url: str, place: Path) -> None:
        self._code = code.format(url=url, place=str(place), settings=SETTINGS, here=str(Path(__file__).parent))

    def __enter__(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", self._code]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"
        return self._child

    def __exit__(self, *_: object) -> None:
        _kill(self._child)


def _kill(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)


def _require_hashes(place: Path) -> None:
    for bucket in manifest.load(place).buckets:
        for file in (bucket.events, bucket.heads):
            assert file is None or archive_files.hash_of(place / file.name) == file.sha256
