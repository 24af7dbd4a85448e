"""`compact` over repeated rows and ids: repeated rows are refused, shared ids are reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import errors, state
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.source.columns import DDL
from tallystick.pipeline.storage.port import storage_at
from tests.pipeline import spark_digests

MakeLog = Callable[..., None]


def written_twice(spark: SparkSession, place: Path, number: int, **changes: object) -> int:
    """Write the first row of a bucket a second time, with changes, and update the manifest; its position."""
    before = manifest.load(place)
    bucket = before.buckets[number]
    assert bucket.events is not None
    table = pq.read_table(place / bucket.events.name)
    (row,) = table.slice(0, 1).to_pylist()
    again = pa.Table.from_pylist([row | changes], schema=table.schema)
    staged = place / "twice.parquet"
    pq.write_table(pa.concat_tables([table.slice(0, 1), again, table.slice(1)]), staged)
    found = spark_digests.blocks(spark.read.schema(DDL).parquet(str(staged))).orderBy("block").collect()
    shelf = archive_files.BucketFiles(
        storage=storage_at(place), run=manifest.new_run(), first=bucket.first, last=bucket.last
    )
    events = shelf.put(archive_files.EVENTS, staged, rows=archive_files.rows_in(staged))
    changed = msgspec.structs.replace(
        bucket, events=events, rows=events.rows, blocks=[spark_digests.as_block(item) for item in found]
    )
    buckets = [changed if item is bucket else item for item in before.buckets]
    manifest.save(place, msgspec.structs.replace(before, buckets=buckets))
    return int(row["position"])


def test_what_is_not_as_it_was_archived_is_not_merged(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-06: a repeated row is refused by name, and the archive stays as it was."""
    place = tmp_path / "archive"
    make_log(files_url, events=45)
    archive(spark, files_url, place, bucket_events=9)
    written_twice(spark, place, 0)
    before = manifest.load(place)
    with pytest.raises(errors.ArchiveDamaged, match="does not have its positions in order"):
        compact(spark, place, bucket_events=27)
    assert manifest.load(place) == before


def test_an_id_of_two_events_is_reported_and_its_bucket_stays(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-06: the id is reported, and the buckets with it are not merged."""
    place = tmp_path / "archive"
    make_log(files_url, events=45)
    archive(spark, files_url, place, bucket_events=9)
    before = manifest.load(place)
    bucket = before.buckets[3]
    assert bucket.events is not None
    table = pq.read_table(place / bucket.events.name)
    ids = table["id"].to_pylist()
    staged = place / "twice.parquet"
    pq.write_table(table.set_column(table.column_names.index("id"), "id", [[ids[1], *ids[1:]]]), staged)
    shelf = archive_files.BucketFiles(
        storage=storage_at(place), run=manifest.new_run(), first=bucket.first, last=bucket.last
    )
    events = shelf.put(archive_files.EVENTS, staged, rows=archive_files.rows_in(staged))
    kept = msgspec.structs.replace(bucket, events=events)
    buckets = [kept if item is bucket else item for item in before.buckets]
    manifest.save(place, msgspec.structs.replace(before, buckets=buckets))
    done = compact(spark, place, bucket_events=27)
    assert [(item.what, item.position) for item in done.problems] == [("duplicate", bucket.first)]
    assert (done.buckets_before, done.buckets_after) == (5, 3)
    assert kept in manifest.load(place).buckets


def test_an_erasure_does_not_wait_for_files_that_a_merge_left(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-02: of the files that a merge keeps for older readers, those with an erased payload go at once."""
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


def test_what_the_archive_did_not_make_stays(tmp_path: Path) -> None:
    """PIPE-02: other files and folders in `data/` stay; files of a killed run are removed."""
    (tmp_path / archive_files.EVENTS).mkdir()
    with archive_files.locked(tmp_path):
        (tmp_path / archive_files.EVENTS / "notes.txt").write_text("mine")
        (tmp_path / archive_files.EVENTS / "folder.parquet").mkdir()
        killed = tmp_path / archive_files.EVENTS / f"{1:019d}-{9:019d}-{'ab' * 8}.parquet"
        killed.write_bytes(b"")
        os.utime(killed, (0, 0))
        os.utime(tmp_path / archive_files.EVENTS / "notes.txt", (0, 0))
        archive_files.remove_old_files(tmp_path, manifest.Manifest(store_id="00" * 16))
    assert sorted(path.name for path in (tmp_path / archive_files.EVENTS).iterdir()) == ["folder.parquet", "notes.txt"]
