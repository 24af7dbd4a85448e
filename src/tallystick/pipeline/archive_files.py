"""The files of an archive: every job reads them here, and nothing is rewritten from one that is not as it was written.

A file is served only if it has the hash and the rows that the manifest names, in the order of positions and within the
bounds of its bucket. Nothing is taken from its statistics, which somebody may have changed with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tallystick import errors
from tallystick.pipeline import shelving
from tallystick.pipeline.columns import COLUMNS, SPARK_TYPES, Batches, arrow_schema
from tallystick.pipeline.failures import told
from tallystick.pipeline.manifest import BLOCK_POSITIONS, Block, Bucket, Manifest

_BATCH_ROWS_MAX = 8192
_TABLE_BYTES = 16 << 20


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive with the positions from `first` to `last`; of its row groups, one share of so many."""

    name: str
    sha256: str
    rows: int
    first: int
    last: int
    share: int = 0
    shares: int = 1


def file_of(bucket: Bucket) -> File | None:
    """The file with the events of a bucket; None if it has none."""
    events = bucket.events
    if events is None:
        return None
    return File(name=events.name, sha256=events.sha256, rows=events.rows, first=bucket.first, last=bucket.last)


def read(place: str, file: File, names: Sequence[str] = COLUMNS, *, table_bytes: int = _TABLE_BYTES) -> Batches:
    """The rows of a file, or of its share, in order; `ArchiveDamaged` if it is not the file that was archived."""
    wanted = list(dict.fromkeys(["position", *names]))
    last = file.first - 1
    with _clearly(place, file):
        if shelving.hash_of(Path(place) / file.name) != file.sha256:
            raise _damaged(place, file, "is not the one that was archived")
        with pq.ParquetFile(Path(place) / file.name, pre_buffer=False) as opened:
            if opened.metadata.num_rows != file.rows:
                raise _damaged(place, file, f"has {opened.metadata.num_rows} rows, not {file.rows}")
            for batch in _rows(opened, file, wanted, table_bytes):
                last = _require_order(place, file, batch, last)
                yield batch.select(list(names))


def _rows(opened: pq.ParquetFile, file: File, wanted: list[str], table_bytes: int) -> Batches:
    schema, groups = arrow_schema(wanted), opened.num_row_groups
    for number in range(groups * file.share // file.shares, groups * (file.share + 1) // file.shares):
        group = opened.metadata.row_group(number)
        fit = table_bytes * group.num_rows // max(group.total_byte_size, 1)
        rows = min(max(fit, 1), _BATCH_ROWS_MAX)
        for batch in opened.iter_batches(rows, [number], columns=wanted, use_threads=False):
            yield batch.select(wanted).cast(schema)


@contextmanager
def _clearly(place: str, file: File) -> Iterator[None]:
    """Raise what the file system and Parquet say as an error that names the file."""
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as problem:
        raise _damaged(place, file, "is missing (if `archive` ran meanwhile, run this again)") from problem
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        raise _damaged(place, file, f"cannot be read: {str(problem).partition(chr(10))[0]}") from problem


def _require_order(place: str, file: File, batch: pa.RecordBatch, last: int) -> int:
    """Refuse rows that do not ascend within the bounds of their bucket; the last position."""
    found = batch.column(0).to_numpy(zero_copy_only=False)
    if not (found[0] > last and np.all(found[1:] > found[:-1]) and found[-1] <= file.last):
        raise _damaged(place, file, "does not hold its positions in order")
    return int(found[-1])


def _damaged(place: str, file: File, reason: str) -> errors.ArchiveDamaged:
    return errors.ArchiveDamaged(path=place, reason=f"{Path(file.name).name} {reason}")


def table(spark: SparkSession, place: Path, listed: Manifest, names: Sequence[str] = COLUMNS) -> DataFrame:
    """The events of an archive, a task each file."""
    files = [file for bucket in listed.buckets if (file := file_of(bucket)) is not None]
    ddl = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in names)
    if not files:
        return spark.createDataFrame([], ddl)
    chosen, directory = list(names), str(place)

    def run(batches: Batches) -> Batches:
        with told():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read(directory, files[number], chosen)

    return spark.range(0, len(files), 1, len(files)).mapInArrow(run, ddl)


# --- blocks ----------------------------------------------------------------------------------------------------------


def wrong_blocks(positions: Sequence[int], links: Sequence[bytes | None], blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks that rows do not have; rows past the last one are a block that should not be there."""
    at = 0
    for block in blocks:
        end = at + block.rows
        lines = zip(positions[at:end], links[at:end], strict=True)
        texts = [f"{position}\n{link.hex() if link is not None else ''}\n" for position, link in lines]
        is_there = len(texts) == block.rows and hashlib.sha256("".join(texts).encode()).hexdigest() == block.digest
        if not is_there:
            yield block
        at = end
    if at < len(positions):
        yield Block((positions[at] - 1) // BLOCK_POSITIONS, 0, "")


def require_blocks(place: str, bucket: Bucket) -> None:
    """Refuse a bucket whose rows are not those that its blocks were computed of."""
    file = file_of(bucket)
    positions: list[int] = []
    links: list[bytes | None] = []
    for batch in read(place, file, ("position", "link")) if file is not None else ():
        positions += batch.column(0).to_pylist()
        links += batch.column(1).to_pylist()
    if (wrong := next(wrong_blocks(positions, links, bucket.blocks), None)) is not None:
        first = max(bucket.first, wrong.number * BLOCK_POSITIONS + 1)
        raise errors.ArchiveDamaged(path=place, reason=f"positions from {first} on do not hold what was archived")
