"""An archive in an object store: every job over the S3 protocol, with other runs and with kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.diff import diff
from tallystick.pipeline.jobs.growth import growth
from tallystick.pipeline.jobs.query import sql
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.replay_check import replay_check
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.storage.port import storage_at
from tallystick.pipeline.whole_log import read_archive, whole_log
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.state import as_reducer, prune
from tests.pipeline.object_store import Server

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]

ARCHIVING = """
from tallystick.pipeline import session
from tallystick.pipeline.jobs.archive import archive
settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
archive(session("local[2]", memory="512m", settings=settings), %r, %r, bucket_events=15)
"""


class Visits(Projection):
    """The events of every stream, in order."""

    types = ("order.placed", "order.paid", "order.noted")
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"events": 0, "sum": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more."""
        cents = event.data["cents"] if event.data is not None else -1
        return {"events": found["events"] + 1, "sum": (found["sum"] * 31 + cents) % 1_000_003}


class Counted:
    """Counts events."""

    name, version = "objects.count", 1

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One more."""
        return {"events": found["events"] + 1}


def test_every_job_works_on_an_archive_in_a_store(
    spark: SparkSession, files_url: str, make_log: MakeLog, bucket_url: str, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-02 to PIPE-06: archive, verify, rebuild, diff, sql, growth, replay-check, compact, erasure and pruning."""
    make_log(files_url, events=50)
    done = archive(spark, files_url, bucket_url, bucket_events=20)
    assert (done.events, done.buckets, done.through) == (50, 3, 50)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 2, reason="asked")
        state.seal(store, as_reducer(Counted), "order/o2")
    make_log(files_url, events=15, seed=2)
    assert rows_of(whole_log(files_url, bucket_url).table(spark)) == stored(files_url)
    assert archive(spark, files_url, bucket_url, bucket_events=20).erased == 1
    assert rows_of(read_archive(spark, bucket_url)) == stored(files_url)
    assert verify(spark, files_url, bucket_url).problems == []
    merged = compact(spark, bucket_url, bucket_events=1000, grace_seconds=0)
    assert (merged.buckets_after, merged.problems) == (1, [])
    everything = stored(files_url)
    with tallystick.open(files_url) as store:
        rebuild_in_process(store, Visits())
        inside = ViewReader(store, "Visits").fingerprint()
        held = ArchiveCoverage(bucket_url, store)
        head = store.stream_head("order/o3")
        assert head is not None
        prune(store, "order/o3", before=head.seq, reducers=[as_reducer(Counted)], snapshot=True, archive=held)
        rebuild(spark, store, Visits(), bucket_url)
        assert ViewReader(store, "Visits").fingerprint().digest == inside.digest
    archived = manifest.load(bucket_url).through
    found = rows_of(whole_log(files_url, bucket_url).table(spark))
    assert [event for event in found if event.position <= archived] == everything[:archived]
    assert verify(spark, files_url, bucket_url).problems == []
    assert diff(spark, files_url, Visits(), Visits(), bucket_url).same
    assert replay_check(spark, files_url, [as_reducer(Counted)], bucket_url).ok
    assert growth(spark, files_url, bucket_url).events == len(found)
    assert sql(spark, files_url, "select count(*) from events", bucket_url).collect()[0][0] == len(found)


def listed(place: str) -> set[str]:
    """The files that the newest manifest names."""
    return {file.name for item in manifest.load(place).buckets for file in (item.events, item.heads) if file}


def require_whole(place: str) -> None:
    """Every listed file exists and has its hash, and no other file exists."""
    where = storage_at(place)
    for bucket in manifest.load(place).buckets:
        for file in (bucket.events, bucket.heads):
            if file is not None:
                with where.opened(file.name) as path:
                    assert archive_files.hash_of(path) == file.sha256
    assert archive_files.archive_file_names(where) == listed(place)


def test_of_two_archivers_one_commits_and_the_other_goes_on(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    objects: Server,
    bucket_url: str,
    stored: Stored,
    rows_of: RowsOf,
) -> None:
    """PIPE-02: another run archives while the first is about to commit: every event is archived once."""
    make_log(files_url, events=40)
    other: list[int] = []

    def overtake() -> None:
        other.append(archive(spark, files_url, bucket_url, until=30, bucket_events=10).events)

    objects.between.at("PUT", "manifests/0000000000000000001", overtake)
    done = archive(spark, files_url, bucket_url, bucket_events=15)
    assert (other, done.events, done.through) == ([30], 10, 40)
    assert rows_of(read_archive(spark, bucket_url)) == stored(files_url)
    assert verify(spark, files_url, bucket_url).problems == []
    require_whole(bucket_url)


def test_a_merge_that_is_overtaken_is_done_again(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    objects: Server,
    bucket_url: str,
    stored: Stored,
    rows_of: RowsOf,
) -> None:
    """PIPE-06: an archive run removes a payload and commits while a merge is about to: neither is undone."""
    make_log(files_url, events=30)
    archive(spark, files_url, bucket_url, bucket_events=10)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")

    def overtake() -> None:
        archive(spark, files_url, bucket_url, bucket_events=10)

    objects.between.at("PUT", "manifests/0000000000000000002", overtake)
    assert compact(spark, bucket_url, grace_seconds=0).buckets_after == 1
    assert rows_of(read_archive(spark, bucket_url)) == stored(files_url)
    assert verify(spark, files_url, bucket_url).problems == []
    require_whole(bucket_url)


def test_a_run_that_always_comes_late_says_so(
    spark: SparkSession, files_url: str, make_log: MakeLog, objects: Server, bucket_url: str
) -> None:
    """PIPE-02: a run that loses five times in a row ends by name; only its own files are removed."""
    make_log(files_url, events=20)
    for number in range(5):

        def overtake(end: int = number + 1) -> None:
            archive(spark, files_url, bucket_url, until=end)

        objects.between.at("PUT", f"manifests/{number + 1:019d}", overtake)
    with pytest.raises(errors.ArchiveLocked):
        archive(spark, files_url, bucket_url)
    assert manifest.load(bucket_url).through == 5
    require_whole(bucket_url)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("method", "path", "after"),
    [
        ("PUT", "manifests/0000000000000000002", False),
        ("PUT", "manifests/0000000000000000002", True),
        pytest.param("PUT", "/data/", False, marks=pytest.mark.slow),
        pytest.param("PUT", "/data/", True, marks=pytest.mark.slow),
        pytest.param("PUT", "/heads/", False, marks=pytest.mark.slow),
        pytest.param("PUT", "/heads/", True, marks=pytest.mark.slow),
        pytest.param("POST", "delete", False, marks=pytest.mark.slow),
        pytest.param("POST", "delete", True, marks=pytest.mark.slow),
        pytest.param("PUT", "manifest.json", False, marks=pytest.mark.slow),
        pytest.param("PUT", "manifest.json", True, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_a_write_is_made_good_by_the_next(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    objects: Server,
    bucket_url: str,
    stored: Stored,
    rows_of: RowsOf,
    method: str,
    path: str,
    after: bool,
) -> None:
    """PIPE-02: SIGKILL before and after each kind of write: listed files are whole; the next run does the rest."""
    make_log(files_url, events=30)
    if path != "manifest.json":
        archive(spark, files_url, bucket_url, bucket_events=15)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    make_log(files_url, events=15, seed=2)
    children: list[subprocess.Popen[bytes]] = []
    objects.between.at(method, path, lambda: os.killpg(children[0].pid, signal.SIGKILL), after=after)
    code = ARCHIVING % (files_url, bucket_url)
    children.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL))
    assert children[0].wait(timeout=300) == -signal.SIGKILL
    if path != "manifest.json":
        where = storage_at(bucket_url)
        assert listed(bucket_url) <= archive_files.archive_file_names(where)
        assert rows_of(whole_log(files_url, bucket_url).table(spark)) == stored(files_url)
    archive(spark, files_url, bucket_url, bucket_events=15)
    assert rows_of(read_archive(spark, bucket_url)) == stored(files_url)
    assert verify(spark, files_url, bucket_url).problems == []
    require_whole(bucket_url)


def test_a_file_that_is_changed_in_the_store_is_refused(
    spark: SparkSession, files_url: str, make_log: MakeLog, bucket_url: str
) -> None:
    """PIPE-03: a changed byte or a missing file: jobs refuse it, verify reports it."""
    make_log(files_url, events=30)
    archive(spark, files_url, bucket_url, bucket_events=15)
    where = storage_at(bucket_url)
    changed, missing = [bucket.events.name for bucket in manifest.load(bucket_url).buckets if bucket.events]
    body = bytearray(where.read(changed))
    body[len(body) // 2] ^= 1
    where.put(changed, bytes(body))
    with pytest.raises(errors.ArchiveDamaged, match="is not the one that was archived"):
        growth(spark, files_url, bucket_url)
    where.remove(missing)
    found = [problem.reason for problem in verify(spark, files_url, bucket_url).problems]
    assert any("is not the file that the manifest names" in reason for reason in found)
    assert any("is missing" in reason for reason in found)


def test_what_was_written_is_read_back_before_it_counts(objects: Server, bucket_url: str, tmp_path: Path) -> None:
    """PIPE-02: a hash is computed from what the store has, not from what was sent."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"position": [1]}), tmp_path / "draft")
    where = storage_at(bucket_url)

    def spoil() -> None:
        (name,) = where.names("data")
        where.put(name, b"something else")

    objects.between.at("GET", "/data/", spoil)
    shelf = archive_files.BucketFiles(storage=where, run=manifest.new_run(), first=1, last=1)
    with pytest.raises(errors.ArchiveDamaged, match="is not what was written there"):
        shelf.put(archive_files.EVENTS, tmp_path / "draft", rows=1)
