"""Writing buckets: each Spark task reads one range of the log, writes it as Parquet, and reports what it wrote.

Rows go from Arrow to Parquet inside the task. The JVM never sees them, and they need no sort, since a range is read in
order of position. The task also computes what the manifest lists of a bucket: the digests of its blocks, and the ends
of its streams. The task stores the files under their names. Nobody reads them before a manifest names them, and the
names contain the run, so a repeated task does no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallystick.pipeline.archive import archive_files
from tallystick.pipeline.archive.archive_files import BucketFiles
from tallystick.pipeline.archive.manifest import BLOCK_POSITIONS, Block, DataFile
from tallystick.pipeline.source import column_hashes
from tallystick.pipeline.source.columns import COLUMNS, Batches, arrow_schema
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.storage.port import Storage

GROUP_BYTES = 64 << 20  # large enough for a row group, small enough for a worker's memory
_REPEATING = ["stream", "type", "version", "meta"]  # a dictionary pays off for these; hashes do not repeat
_PRIVATE = frozenset({"payload", "meta"})  # other tools copy statistics, and no erasure reaches the copies
HEADS = pa.schema([("stream", pa.string()), ("seq", pa.int64()), ("link", pa.binary())])
_LAST = [("seq", "last"), ("link", "last")]
_IN_BLOCKS = ["position", "link"]


class StagedBucket(msgspec.Struct, frozen=True, kw_only=True):
    """What a task wrote for a range: its files, or no files if the range had no events."""

    rows: int
    events: DataFile | None = None
    heads: DataFile | None = None
    blocks: list[Block] = []


def stage(
    spark: SparkSession, query: LogQuery, ranges: Sequence[Range], storage: Storage, run: str
) -> list[StagedBucket]:
    """Write every range into a file of the archive, one task per range."""
    return tasks.run_each(spark, ranges, lambda part: stage_range(query, part, storage, run), StagedBucket)


def stage_range(query: LogQuery, part: Range, storage: Storage, run: str) -> StagedBucket:
    """Write the events of one range and the ends of its streams; runs in a worker."""
    files = BucketFiles(storage=storage, run=run, first=part.after + 1, last=part.until)
    blocks, ends = BlockDigests(), StreamEnds()
    with storage.drafted() as draft:
        with parquet_writer(draft, arrow_schema(COLUMNS)) as writer:
            for group in group_batches(read_range(query, COLUMNS, part), GROUP_BYTES):
                blocks.take(group)
                ends.take(group)
                writer.write_table(group, row_group_size=group.num_rows)
        found = blocks.close()
        rows = sum(block.rows for block in found)
        if not rows:
            return StagedBucket(rows=0)
        heads = write_heads(files, ends)
        return StagedBucket(
            rows=rows, events=files.put(archive_files.EVENTS, draft, rows=rows), heads=heads, blocks=found
        )


def write_heads(files: BucketFiles, ends: StreamEnds) -> DataFile:
    """Write the ends of streams into a file of the archive."""
    with files.storage.drafted() as draft:
        with parquet_writer(draft, HEADS) as writer:
            writer.write_table(ends.table())
        return files.put(archive_files.HEADS, draft, rows=ends.count)


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A new Parquet file of an archive."""
    names = [name for name in _REPEATING if name in schema.names]
    with_statistics = [name for name in schema.names if name not in _PRIVATE]
    return pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=names, write_statistics=with_statistics, store_schema=False
    )


def group_batches(batches: Batches, table_bytes: int) -> Iterator[pa.Table]:
    """Batches joined into tables of about `table_bytes`."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= table_bytes:
            yield pa.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


class BlockDigests:
    """Computes the digests of blocks over `position ‖ link` lines; tables come in order of position."""

    def __init__(self) -> None:
        self._found: list[Block] = []
        self._number = -1
        self._rows = 0
        self._last = 0
        self._digest = hashlib.sha256()

    def take(self, events: pa.Table) -> None:
        """Take in the next rows."""
        for batch in events.select(_IN_BLOCKS).to_batches():
            self._take(batch.column("position"), batch.column("link"))

    def _take(self, positions: pa.Array, links: pa.Array) -> None:
        found = positions.to_numpy()
        assert np.all(found > np.append(self._last, found[:-1])), "a range is read in order of position"
        numbers = (found - 1) // BLOCK_POSITIONS
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(found)]
        for begin, end in pairwise(edges):
            self._begin(int(numbers[begin]))
            self._digest.update(
                column_hashes.lines(positions.slice(begin, end - begin), links.slice(begin, end - begin))
            )
            self._rows += end - begin
        self._last = int(found[-1])

    def _begin(self, number: int) -> None:
        if number != self._number:
            self._end()
            self._number, self._rows, self._digest = number, 0, hashlib.sha256()

    def _end(self) -> None:
        if self._rows:
            self._found.append(Block(self._number, self._rows, self._digest.hexdigest()))

    def close(self) -> list[Block]:
        """The blocks, in order."""
        self._end()
        return self._found


class StreamEnds:
    """Remembers the last event of every stream; tables come in order of position."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, bytes]] = {}

    def take(self, events: pa.Table) -> None:
        """Take in the next rows."""
        found = events.select(HEADS.names).group_by("stream", use_threads=False).aggregate(_LAST)
        ends = zip(found.column("seq_last").to_pylist(), found.column("link_last").to_pylist(), strict=True)
        self._last.update(zip(found.column("stream").to_pylist(), ends, strict=True))

    @property
    def count(self) -> int:
        """The number of streams."""
        return len(self._last)

    def table(self) -> pa.Table:
        """(stream, seq, link) of the last events, in order of stream."""
        rows = sorted((stream, *end) for stream, end in self._last.items())
        columns = zip(zip(*rows, strict=True), HEADS.types, strict=True)
        return pa.table([pa.array(values, kind) for values, kind in columns], schema=HEADS)
