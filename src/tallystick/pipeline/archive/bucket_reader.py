"""Reading the files of an archive: every job reads them here, and each file is checked before its rows are used.

A file must have the hash, the columns and the number of rows that the manifest names. Its rows must be in order of
position, within the bounds of its bucket, and have the digests of its blocks; the log records those digests, but not
the hash. The statistics of a file are never used: anyone who changed the file may have changed them too.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tallystick import errors
from tallystick.pipeline.archive import archive_files
from tallystick.pipeline.archive.manifest import BLOCK_POSITIONS, Block, Bucket, Manifest
from tallystick.pipeline.source import column_hashes
from tallystick.pipeline.source.columns import COLUMNS, SPARK_TYPES, Batches, arrow_schema
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.storage.port import Storage, storage_at

PIECE_ROWS = 250_000
PIECE_BYTES_MAX = 256 << 20
PIECES_A_CORE = 2
SHARE_ROWS_MIN = 50_000
_BATCH_ROWS_MAX = 8192
_TABLE_BYTES = 16 << 20
_IN_BLOCKS = ["position", "link"]


class BucketFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive with the positions from `first` to `last`, or one of several shares of its row groups."""

    name: str
    sha256: str
    rows: int
    size: int
    first: int
    last: int
    blocks: tuple[Block, ...]
    share: int = 0
    shares: int = 1


def file_of(bucket: Bucket) -> BucketFile | None:
    """The file with the events of a bucket; None if the bucket has no events."""
    events = bucket.events
    if events is None:
        return None
    return BucketFile(
        name=events.name,
        sha256=events.sha256,
        rows=events.rows,
        size=events.size,
        first=bucket.first,
        last=bucket.last,
        blocks=tuple(bucket.blocks),
    )


def read_shares(files: Sequence[BucketFile], *, cores: int) -> list[tuple[BucketFile, ...]]:
    """The files that each task reads: small neighbours together, large files in shares, so that every core has work."""
    fair = sum(file.size for file in files) // (cores * PIECES_A_CORE)
    found: list[list[BucketFile]] = []
    rows = 0
    for file in files:
        wanted = min(-(-file.size // min(max(fair, 1), PIECE_BYTES_MAX)), file.rows // SHARE_ROWS_MIN)
        if wanted > 1:
            found += [[msgspec.structs.replace(file, share=share, shares=wanted)] for share in range(wanted)]
            rows = PIECE_ROWS
        elif found and rows + file.rows <= PIECE_ROWS and _are_small(found[-1], file):
            found[-1].append(file)
            rows += file.rows
        else:
            found.append([file])
            rows = file.rows
    return [tuple(item) for item in found]


def _are_small(files: Sequence[BucketFile], file: BucketFile) -> bool:
    return sum(item.size for item in files) + file.size <= PIECE_BYTES_MAX


def read(
    storage: str | Path | Storage, file: BucketFile, names: Sequence[str] = COLUMNS, *, table_bytes: int = _TABLE_BYTES
) -> Batches:
    """The rows of a file, or of its share, in order; `ArchiveDamaged` if they are not what was archived.

    The hash, the columns and the blocks are checked before the first row is given out.
    """
    storage, wanted = storage_at(storage), list(dict.fromkeys(["position", *names]))
    last = file.first - 1
    with damage_errors(storage, file), _opened(storage, file) as opened:
        begin, end = _groups(opened, file)
        edges = list(accumulate((opened.metadata.row_group(at).num_rows for at in range(end)), initial=0))
        _require_blocks(storage, file, opened, edges[begin], edges[end])
        count = 0
        for batch in _rows(opened, range(begin, end), wanted, table_bytes):
            last = _require_order(storage, file, batch, last)
            count += batch.num_rows
            yield batch.select(list(names))
        if count != edges[end] - edges[begin]:
            raise _damaged(storage, file, f"has {count} rows, but its footer says {edges[end] - edges[begin]}")


def require_file(storage: str | Path | Storage, file: BucketFile) -> None:
    """Refuse a file that is not as it was archived."""
    for _ in read(storage, file, ("position",)):
        pass


@contextmanager
def _opened(storage: Storage, file: BucketFile) -> Iterator[pq.ParquetFile]:
    """The file, if it has the hash, the columns and the number of rows that the manifest names."""
    with storage.opened(file.name) as path:
        if archive_files.hash_of(path) != file.sha256:
            raise _damaged(storage, file, "is not the one that was archived")
        with pq.ParquetFile(path, pre_buffer=False) as opened:
            yield _formed(storage, file, opened)


def _formed(storage: Storage, file: BucketFile, opened: pq.ParquetFile) -> pq.ParquetFile:
    """The file, if it has the columns of events and the right number of rows."""
    if (reason := wrong_form(opened.schema_arrow)) is not None:
        raise _damaged(storage, file, reason)
    if opened.metadata.num_rows != file.rows:
        raise _damaged(storage, file, f"has {opened.metadata.num_rows} rows, not {file.rows}")
    return opened


def wrong_form(found: pa.Schema) -> str | None:
    """Which column of events is missing or has another type; None if the schema is right."""
    for field in arrow_schema(COLUMNS):
        at = found.get_field_index(field.name)
        if at < 0:
            return f"has no column {field.name}"
        if found.field(at).type != field.type:
            return f"has {found.field(at).type} in the column {field.name}, not {field.type}"
    return None


def _groups(opened: pq.ParquetFile, file: BucketFile) -> tuple[int, int]:
    """The row groups of a share: the first, and the one after the last."""
    groups = opened.num_row_groups
    return groups * file.share // file.shares, groups * (file.share + 1) // file.shares


def _rows(opened: pq.ParquetFile, groups: Iterable[int], wanted: list[str], table_bytes: int) -> Batches:
    for number in groups:
        group = opened.metadata.row_group(number)
        fit = table_bytes * group.num_rows // max(group.total_byte_size, 1)
        rows = min(max(fit, 1), _BATCH_ROWS_MAX)
        for batch in opened.iter_batches(rows, [number], columns=wanted, use_threads=False):
            yield batch.select(wanted)


@contextmanager
def damage_errors(storage: Storage, file: BucketFile) -> Iterator[None]:
    """Raise errors of the file system and of Parquet as `ArchiveDamaged`, with the name of the file."""
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as problem:
        raise _damaged(
            storage, file, "is missing (if an archive run has removed it in the meantime, run this again)"
        ) from problem
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        raise _damaged(storage, file, f"cannot be read: {str(problem).partition(chr(10))[0]}") from problem


def _require_order(storage: Storage, file: BucketFile, batch: pa.RecordBatch, last: int) -> int:
    """The last position of a batch; refused if its rows do not ascend within the bounds of their bucket."""
    found = batch.column("position").to_numpy(zero_copy_only=False)
    if not (found[0] > last and np.all(found[1:] > found[:-1]) and found[-1] <= file.last):
        raise _damaged(storage, file, "does not have its positions in order")
    return int(found[-1])


def _damaged(storage: Storage, file: BucketFile, reason: str) -> errors.ArchiveDamaged:
    return errors.ArchiveDamaged(path=str(storage), reason=f"{Path(file.name).name} {reason}")


def table(
    spark: SparkSession,
    storage: Storage,
    listed: Manifest,
    names: Sequence[str] = COLUMNS,
    *,
    erased: Sequence[int] = (),
) -> DataFrame:
    """The events of an archive, without the payloads at the positions `erased`."""
    files = [file for bucket in listed.buckets if (file := file_of(bucket)) is not None]
    ddl = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in names)
    if not files:
        return spark.createDataFrame([], ddl)
    chosen = list(names)
    wanted = list(dict.fromkeys(["position", *chosen]))

    def rows_of(part: tuple[BucketFile, ...]) -> Batches:
        for file in part:
            for batch in read(storage, file, wanted):
                yield without_payloads(batch, erased).select(chosen)

    return tasks.table(spark, read_shares(files, cores=tasks.cores(spark)), rows_of, ddl)


def within(positions: Sequence[int], first: int, last: int) -> Sequence[int]:
    """The positions from `first` to `last`, of positions in order."""
    return positions[bisect_left(positions, first) : bisect_right(positions, last)]


def without_payloads(events: pa.RecordBatch, erased: Sequence[int]) -> pa.RecordBatch:
    """The events of a batch without the payloads at these positions, which are in order."""
    at = events.schema.get_field_index("payload")
    if not erased or at < 0 or not events.num_rows:
        return events
    positions = events.column("position")
    bounds = pc.min_max(positions).as_py()
    gone = within(erased, bounds["min"], bounds["max"])
    if not gone:
        return events
    is_gone = pc.is_in(positions, pa.array(gone, pa.int64()))
    return events.set_column(at, "payload", pc.if_else(is_gone, pa.scalar(None, pa.string()), events.column(at)))


# --- blocks ----------------------------------------------------------------------------------------------------------


def _require_blocks(storage: Storage, file: BucketFile, opened: pq.ParquetFile, begin: int, end: int) -> None:
    """Refuse a file if the blocks with its rows from `begin` to `end` do not have their digests."""
    edges = list(accumulate((block.rows for block in file.blocks), initial=0))
    touched = [at for at in range(len(file.blocks)) if edges[at] < end and edges[at + 1] > begin]
    if not touched:
        return
    begin, end = edges[touched[0]], edges[touched[-1] + 1]
    wrong = next(wrong_blocks(_between(opened, begin, end), [file.blocks[at] for at in touched]), None)
    if wrong is not None:
        first = max(file.first, wrong.number * BLOCK_POSITIONS + 1)
        raise _damaged(storage, file, f"does not have what was archived from position {first} on")


def _between(opened: pq.ParquetFile, begin: int, end: int) -> Batches:
    """The positions and links of the rows from number `begin` to number `end` of a file."""
    at = 0
    for number in range(opened.num_row_groups):
        count = opened.metadata.row_group(number).num_rows
        if at < end and at + count > begin:
            for batch in opened.iter_batches(_BATCH_ROWS_MAX, [number], columns=_IN_BLOCKS, use_threads=False):
                first, last = max(begin - at, 0), min(end - at, batch.num_rows)
                if first < last:
                    yield batch.select(_IN_BLOCKS).slice(first, last - first)
                at += batch.num_rows
        else:
            at += count


def wrong_blocks(rows: Batches, blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks whose digests the rows (position, link) do not have. Rows after the last block count as one more."""
    waiting = (batch for batch in rows if batch.num_rows)
    batch = next(waiting, None)
    for block in blocks:
        digest, left = hashlib.sha256(), block.rows
        while left and batch is not None:
            its = batch.slice(0, left)
            digest.update(column_hashes.lines(its.column("position"), its.column("link")))
            left -= its.num_rows
            batch = batch.slice(its.num_rows) if its.num_rows < batch.num_rows else next(waiting, None)
        if left or digest.hexdigest() != block.digest:
            yield block
    if batch is not None:
        yield Block((batch.column("position")[0].as_py() - 1) // BLOCK_POSITIONS, 0, "")
