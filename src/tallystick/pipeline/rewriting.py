"""Writing buckets of an archive again, without a payload or as one: what goes in is checked, and what comes out.

Every input file must be the one that was archived and hold the blocks that the manifest names. The staged file is read
back and compared with the input, row by row, before anybody puts it in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline import archive_files, shelving, tasks
from tallystick.pipeline.bucketing import GROUP_BYTES, HEADS, Ends, Staged, grouped, parquet_writer, staged_names
from tallystick.pipeline.columns import COLUMNS, arrow_schema
from tallystick.pipeline.manifest import Bucket


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """What one task writes again: neighbouring buckets as one, without the payloads at these positions."""

    buckets: Sequence[Bucket]
    erased: Sequence[int] = ()


def write(spark: SparkSession, place: Path, work: Sequence[Again]) -> list[Staged]:
    """Stage all of it, a task each; `ArchiveDamaged` if any bucket is not as it was."""
    directory, staging = str(place), place / shelving.STAGING
    staging.mkdir(parents=True, exist_ok=True)
    return tasks.each(spark, work, lambda item: stage(directory, item, staging), Staged)


def stage(place: str, work: Again, staging: Path) -> Staged:
    """Write the rows of these buckets into a file, and the ends of their streams into another; runs in a worker."""
    events, heads = staged_names(staging, work.buckets[0].first - 1)
    ends, rows = Ends(), 0
    with parquet_writer(events, arrow_schema(COLUMNS)) as file:
        for group in _groups(place, work):
            ends.take(group)
            file.write_table(group, row_group_size=group.num_rows)
            rows += group.num_rows
    _require_same(place, events, _groups(place, work))
    if rows != (expected := sum(bucket.rows for bucket in work.buckets)):
        raise errors.ArchiveDamaged(path=place, reason=f"{rows} rows came of {expected}")
    with parquet_writer(heads, HEADS) as file:
        file.write_table(ends.table())
    return Staged(
        rows=rows,
        events=shelving.written(events, rows=rows),
        heads=shelving.written(heads, rows=ends.count),
        blocks=[block for bucket in work.buckets for block in bucket.blocks],
    )


def _groups(place: str, work: Again) -> Iterator[pa.Table]:
    """The rows of the buckets, without the erased payloads."""
    files = [file for bucket in work.buckets if (file := archive_files.file_of(bucket)) is not None]
    positions = pa.array(work.erased, pa.int64())
    for group in grouped((batch for file in files for batch in archive_files.read(place, file)), GROUP_BYTES):
        if not work.erased:
            yield group
            continue
        is_gone = pc.is_in(group.column("position"), positions)
        payload = pc.if_else(is_gone, pa.scalar(None, pa.string()), group.column("payload"))
        yield group.set_column(group.schema.get_field_index("payload"), "payload", payload)


def _require_same(place: str, path: Path, groups: Iterator[pa.Table]) -> None:
    """Refuse a staged file whose row groups are not the tables that were written."""
    with pq.ParquetFile(path) as written:
        count = 0
        for number, group in enumerate(groups):
            count += 1
            is_there = number < written.num_row_groups
            if not is_there or not written.read_row_group(number).cast(group.schema).equals(group):
                raise errors.ArchiveDamaged(path=place, reason=f"{path.name} is not what was written into it")
        assert count == written.num_row_groups, "nothing else was written"
