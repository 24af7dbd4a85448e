"""`compact` over rows that stand there twice: the same ones become one, different ones are reported and stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import state
from tallystick.event.model import Event
from tallystick.pipeline import digests, manifest, shelving
from tallystick.pipeline.archive import archive
from tallystick.pipeline.columns import DDL
from tallystick.pipeline.compacting import compact
from tallystick.pipeline.verifying import verify
from tallystick.pipeline.whole import read_archive

MakeLog = Callable[..., None]


def written_twice(spark: SparkSession, place: Path, number: int, **changes: object) -> int:
    """Write the first row of a bucket a second time, with changes; the manifest knows of it. Says its position."""
    before = manifest.load(place)
    bucket = before.buckets[number]
    assert bucket.events is not None
    table = pq.read_table(place / bucket.events.name)
    (row,) = table.slice(0, 1).to_pylist()
    again = pa.Table.from_pylist([row | changes], schema=table.schema)
    staged = place / "twice.parquet"
    pq.write_table(pa.concat_tables([table.slice(0, 1), again, table.slice(1)]), staged)
    found = digests.blocks(spark.read.schema(DDL).parquet(str(staged))).orderBy("block").collect()
    events = shelving.shelve(place, shelving.EVENTS, staged, first=bucket.first, last=bucket.last)
    changed = msgspec.structs.replace(
        bucket, events=events, rows=events.rows, blocks=[digests.as_block(item) for item in found]
    )
    buckets = [changed if item is bucket else item for item in before.buckets]
    manifest.save(place, msgspec.structs.replace(before, buckets=buckets))
    return int(row["position"])


def test_duplicates_are_dropped_or_reported(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    tmp_path: Path,
    stored: Callable[[str], list[Event]],
    rows_of: Callable[[DataFrame], list[Event]],
) -> None:
    """PIPE-06: an id that stands there twice with one content stands once after; with two, its bucket stays."""
    place = tmp_path / "archive"
    make_log(files_url, events=45)
    archive(spark, files_url, place, bucket_events=9)
    written_twice(spark, place, 0)
    other = written_twice(spark, place, 3, link=b"\0" * 32)
    kept = manifest.load(place).buckets[3]
    done = compact(spark, place, bucket_events=27)
    assert [(item.what, item.position) for item in done.problems] == [("duplicate", other)]
    assert (done.duplicates_dropped, done.buckets_before, done.buckets_after) == (1, 5, 3)
    assert kept in manifest.load(place).buckets
    found = [event for event in rows_of(read_archive(spark, place)) if event.link != b"\0" * 32]
    assert found == stored(files_url)
    named = {problem.position for problem in verify(spark, files_url, place).problems if problem.stream}
    assert other in named


def test_an_erasure_does_not_wait_for_files_that_a_merge_left(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-02: what a merge keeps for readers of before goes at once if it holds an erased payload, and no more."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    archive(spark, files_url, place, bucket_events=20)
    compact(spark, place, bucket_events=40)
    with tallystick.open(files_url) as store:
        erased = store.log.read_stream("order/o1", limit=1)[0].position
        state.erase(store, "order/o1", 1, reason="asked")
    archive(spark, files_url, place)
    tables = [pq.read_table(path, columns=["position", "payload"]) for path in (place / "data").iterdir()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["payload"] for row in rows if row["position"] == erased] == [None]
    assert len(rows) > 41, "the other file that the merge left is there"
