"""Rewriting buckets of an archive, to remove payloads or to merge buckets: both input and output are checked.

Every input file must be as it was archived, with the blocks that the manifest names. The new file is read back and
compared with the input, row by row, before it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline.archive import archive_files, bucket_reader
from tallystick.pipeline.archive.archive_files import BucketFiles
from tallystick.pipeline.archive.bucket_writer import (
    GROUP_BYTES,
    StagedBucket,
    StreamEnds,
    group_batches,
    parquet_writer,
    write_heads,
)
from tallystick.pipeline.archive.manifest import Bucket
from tallystick.pipeline.source.columns import COLUMNS, arrow_schema
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.storage.port import Storage


class RewriteTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one task rewrites: neighbouring buckets as one bucket, without the payloads at the positions `erased`."""

    buckets: Sequence[Bucket]
    erased: Sequence[int] = ()


def write(spark: SparkSession, storage: Storage, run: str, work: Sequence[RewriteTask]) -> list[StagedBucket]:
    """Rewrite all of it, one Spark task each; `ArchiveDamaged` if a bucket is not as it was archived."""
    return tasks.run_each(spark, work, lambda item: stage(storage, run, item), StagedBucket)


def stage(storage: Storage, run: str, work: RewriteTask) -> StagedBucket:
    """Write the rows of the buckets into one file, and the ends of their streams into another; runs in a worker."""
    files = BucketFiles(storage=storage, run=run, first=work.buckets[0].first, last=work.buckets[-1].last)
    ends, rows = StreamEnds(), 0
    with storage.drafted() as draft:
        with parquet_writer(draft, arrow_schema(COLUMNS)) as file:
            for group in _groups(storage, work):
                ends.take(group)
                file.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
        _require_same(storage, draft, _groups(storage, work))
        if rows != (expected := sum(bucket.rows for bucket in work.buckets)):
            raise errors.ArchiveDamaged(path=str(storage), reason=f"{rows} rows were rewritten, expected {expected}")
        blocks = [block for bucket in work.buckets for block in bucket.blocks]
        heads = write_heads(files, ends)
        return StagedBucket(
            rows=rows, events=files.put(archive_files.EVENTS, draft, rows=rows), heads=heads, blocks=blocks
        )


def _groups(storage: Storage, work: RewriteTask) -> Iterator[pa.Table]:
    """The rows of the buckets, without the erased payloads."""
    files = [file for bucket in work.buckets if (file := bucket_reader.file_of(bucket)) is not None]
    batches = (batch for file in files for batch in bucket_reader.read(storage, file))
    return group_batches((bucket_reader.without_payloads(batch, work.erased) for batch in batches), GROUP_BYTES)


def _require_same(storage: Storage, path: Path, groups: Iterator[pa.Table]) -> None:
    """Refuse a draft whose row groups differ from the tables that were written."""
    with pq.ParquetFile(path) as written:
        count = 0
        for number, group in enumerate(groups):
            count += 1
            is_there = number < written.num_row_groups
            if not is_there or not written.read_row_group(number).cast(group.schema).equals(group):
                raise errors.ArchiveDamaged(
                    path=str(storage), reason="a rewritten bucket differs from what was written"
                )
        assert count == written.num_row_groups, "the draft has no other row groups"
