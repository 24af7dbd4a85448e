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
from tallystick.pipeline import archive_files
from tallystick.pipeline.bucketing import GROUP_BYTES, HEADS, Ends, Staged, grouped, parquet_writer
from tallystick.pipeline.columns import COLUMNS, Batches, arrow_schema
from tallystick.pipeline.failures import told
from tallystick.pipeline.manifest import Bucket

_DDL = "staged binary"
_SCHEMA = pa.schema([("staged", pa.binary())])


def write(
    spark: SparkSession, place: Path, buckets: Sequence[Bucket], staging: Path, *, erased: Sequence[int] = ()
) -> Staged:
    """Stage the rows of neighbouring buckets as one, by one task; `ArchiveDamaged` if they are not as they were."""
    directory, wanted, gone = str(place), list(buckets), list(erased)

    def run(batches: Batches) -> Batches:
        with told():
            for _ in batches:
                done = msgspec.json.encode(stage(directory, wanted, staging, gone))
                yield pa.RecordBatch.from_pydict({"staged": [done]}, schema=_SCHEMA)

    staging.mkdir(parents=True, exist_ok=True)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(run, _DDL).collect()
    return msgspec.json.decode(bytes(row["staged"]), type=Staged)


def stage(place: str, buckets: Sequence[Bucket], staging: Path, erased: Sequence[int]) -> Staged:
    """Write the rows of these buckets into a file, and the ends of their streams into another; runs in a worker."""
    events, heads = staging / "part-events.parquet", staging / "part-heads.parquet"
    ends, rows = Ends(), 0
    with parquet_writer(events, arrow_schema(COLUMNS)) as file:
        for group in _groups(place, buckets, erased):
            ends.take(group)
            file.write_table(group, row_group_size=group.num_rows)
            rows += group.num_rows
    with parquet_writer(heads, HEADS) as file:
        file.write_table(ends.table())
    _require_same(place, events, _groups(place, buckets, erased))
    if rows != sum(bucket.rows for bucket in buckets):
        raise errors.ArchiveDamaged(path=place, reason=f"{rows} rows came of {sum(item.rows for item in buckets)}")
    return Staged(rows=rows, events=str(events), heads=str(heads), blocks=[b for item in buckets for b in item.blocks])


def _groups(place: str, buckets: Sequence[Bucket], erased: Sequence[int]) -> Iterator[pa.Table]:
    """The rows of the buckets, without the erased payloads."""
    files = [file for bucket in buckets if (file := archive_files.file_of(bucket)) is not None]
    positions = pa.array(erased, pa.int64())
    for group in grouped((batch for file in files for batch in archive_files.read(place, file)), GROUP_BYTES):
        if not erased:
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
