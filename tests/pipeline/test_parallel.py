"""The work of the driver and how work is split: few jobs, and no stream or file that only one task can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, state
from tallystick.pipeline.archive import bucket_reader, manifest
from tallystick.pipeline.archive.bucket_reader import BucketFile
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.source import partitions
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.verify import piece_check
from tallystick.pipeline.whole_log import whole_log

MakeLog = Callable[..., None]
JobsOf = Callable[[Callable[[], object]], int]
Rows = list[dict[str, Any]]
VERIFY_JOBS_MAX = 20


def test_a_verification_of_a_small_log_takes_few_jobs(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, jobs_of: JobsOf
) -> None:
    """PIPE-03: verify runs few jobs: a job costs more than hundreds of events."""
    make_log(files_url, events=300)
    archive(spark, files_url, tmp_path / "archive", until=200)
    assert jobs_of(lambda: verify(spark, files_url, tmp_path / "archive")) <= VERIFY_JOBS_MAX


def test_nothing_to_merge_needs_no_spark(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-06: an archive with large enough buckets is not read."""
    make_log(files_url, events=40)
    archive(spark, files_url, tmp_path / "archive", bucket_events=20)
    no_spark: Any = None
    assert compact(no_spark, tmp_path / "archive", bucket_events=20).buckets_after == 2


def test_one_job_writes_all_buckets_again(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, jobs_of: JobsOf
) -> None:
    """PIPE-02, PIPE-06: erasures in eight buckets are one job, and so is a merge of all eight."""
    place = tmp_path / "archive"
    make_log(files_url, events=40, streams=40)
    archive(spark, files_url, place, bucket_events=5)
    with tallystick.open(files_url) as store:
        firsts = [bucket.first for bucket in manifest.load(place).buckets]
        for event in [event for event in store.events() if event.position in firsts]:
            state.erase(store, event.stream, event.seq, reason="asked")
        head = store.head()
    assert len(firsts) == 8
    found: list[int] = []

    def run() -> None:
        found.append(archive(spark, files_url, place, until=head).erased)

    assert jobs_of(run) == 2  # what is new, and what is written again
    assert found == [8]
    assert jobs_of(lambda: compact(spark, place, bucket_events=10)) <= 4
    assert verify(spark, files_url, place).problems == []


# --- where pieces meet -----------------------------------------------------------------------------------------------


def altered(place: Path, number: int, change: Callable[[Rows], None]) -> None:
    """Change the rows of a bucket's file, but not the manifest."""
    file = manifest.load(place).buckets[number].events
    assert file is not None
    table = pq.read_table(place / file.name)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), place / file.name)


def _other_meta(rows: Rows, at: int) -> None:
    rows[at]["meta"] = '{"actor_id":"mallory"}'


def _lost(rows: Rows, at: int) -> None:
    del rows[at]


def _twice(rows: Rows, at: int) -> None:
    rows.insert(at, dict(rows[at]))


CHANGES = {
    "the first of a piece": (_other_meta, 0, 11, "link"),
    "the last of a piece": (_other_meta, -1, 20, "link"),
    "the first is lost": (_lost, 0, 12, "sequence"),
    "the last is lost": (_lost, -1, 21, "sequence"),
    "the last is there twice": (_twice, -1, 20, "sequence"),
}


@pytest.mark.parametrize(("change", "at", "seq", "what"), CHANGES.values(), ids=CHANGES)
def test_a_hot_stream_is_checked_where_its_pieces_meet(
    spark: SparkSession,
    files_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Rows, int], None],
    at: int,
    seq: int,
    what: str,
) -> None:
    """PIPE-03: in one stream over many pieces, damage at the edges of pieces is found like anywhere else."""
    place = tmp_path / "archive"
    with tallystick.open(files_url) as store:
        for number in range(45):
            store.append("order/hot", NewEvent("order.noted", {"number": number}))
    archive(spark, files_url, place, bucket_events=10, until=40)
    monkeypatch.setattr(piece_check, "PIECE_ROWS", 10)
    source = whole_log(files_url, place, over_pruned=True, trusting=False)
    assert len(piece_check.pieces_of(source, cores=2)) == 5
    assert verify(spark, files_url, place).problems == []
    altered(place, 1, lambda rows: change(rows, at))
    found = verify(spark, files_url, place).problems
    assert (what, "order/hot", seq) in {(problem.what, problem.stream, problem.seq) for problem in found}


# --- how work is split -----------------------------------------------------------------------------------------------


def test_ranges_go_by_the_cores_of_the_session() -> None:
    """PIPE-01: a million events are four tasks on two cores, and forty tasks on twenty cores."""
    counts = {cores: len(partitions.split(0, 1_000_000, partition_events=None, cores=cores)) for cores in (1, 2, 8, 20)}
    assert counts == {1: 4, 2: 4, 8: 16, 20: 40}
    assert len(partitions.split(0, 20_000, partition_events=None, cores=100)) == 1


def test_large_events_make_small_ranges(files_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-01: a task has a limited number of bytes, whatever the number of events."""
    with tallystick.open(files_url) as store:
        for number in range(40):
            store.append("order/o1", NewEvent("order.noted", {"number": number, "text": "x" * 10_000}))
    monkeypatch.setattr(partitions, "PARTITION_EVENTS_SAMPLED", 10)
    monkeypatch.setattr(partitions, "PARTITION_BYTES_MAX", 110_000)
    with tallystick.open(files_url, readonly=True) as store:
        found = partitions.plan(store, LogQuery(url=files_url, cores=1))
    assert [part.until - part.after for part in found] == [10, 10, 10, 10]


def test_a_hot_stream_of_runs_is_many_ranges(tmp_path: Path) -> None:
    """PIPE-01: the stream of one run is split like a log."""
    url = f"ndjson:{tmp_path}/runs"
    with tallystick.open(url) as store:
        for number in range(30):
            store.append("run/hot", NewEvent("run.stepped", {"number": number}))
        query = LogQuery(url=url, partition_events=10)
        found = partitions.plan(store, query)
        positions = [
            event.position for part in found for page in partitions.pages(store, query, part) for event in page
        ]
    assert len(found) == 3
    assert len(positions) == len(set(positions)) == 30


def _file(name: str, rows: int, size: int) -> BucketFile:
    return BucketFile(name=name, sha256="", rows=rows, size=size, first=1, last=rows, blocks=())


def test_files_are_shared_among_cores() -> None:
    """PIPE-04: a large file is read in shares, small files are read together, and no task has too many bytes."""
    large, small = _file("large", 1_000_000, 400 << 20), _file("small", 1000, 1 << 20)
    assert len(bucket_reader.read_shares([large], cores=2)) == 4
    assert len(bucket_reader.read_shares([large], cores=8)) == 16
    assert [len(files) for files in bucket_reader.read_shares([small] * 300, cores=2)] == [250, 50]
    heavy = _file("heavy", 1000, 200 << 20)
    assert [len(files) for files in bucket_reader.read_shares([heavy] * 3, cores=1)] == [1, 1, 1]


def test_a_range_is_never_made_for_nothing(files_url: str, make_log: MakeLog) -> None:
    """PIPE-01: an empty part of a log is one empty range, since Spark would invent a partition."""
    make_log(files_url, events=3)
    with tallystick.open(files_url, readonly=True) as store:
        assert partitions.plan(store, LogQuery(url=files_url, after=3, cores=4)) == [Range(3, 3)]


def test_an_erased_payload_is_taken_out_wherever_it_is() -> None:
    """PIPE-02: positions in order, rows in any order."""
    batch = pa.RecordBatch.from_pydict({"position": [9, 2, 5], "payload": ["a", "b", "c"]})
    done = bucket_reader.without_payloads(batch, [1, 2, 9, 11])
    assert done.column(1).to_pylist() == [None, None, "c"]
    assert bucket_reader.without_payloads(batch, [1, 10]) is batch
