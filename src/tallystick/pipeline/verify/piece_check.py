"""The pieces that `verify` checks, one task each: neighbouring buckets of an archive, or a range of the live log.

A task reads its events once, in order. What it finds, and what other steps must look at, become rows of `chain_check`.
Damage does not raise, so that one file or event does not hide the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tallystick import errors
from tallystick.pipeline.archive.bucket_reader import within
from tallystick.pipeline.archive.bucket_writer import HEADS
from tallystick.pipeline.archive.manifest import Bucket
from tallystick.pipeline.source.columns import COLUMNS, SPARK_TYPES, Batches
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, absolute_url, open_log
from tallystick.pipeline.source.partitions import Range, by_stream, split
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.verify import bucket_check
from tallystick.pipeline.verify.chain_check import DDL, ChainChecker, Found, batches, problem_row
from tallystick.pipeline.whole_log import WholeLog
from tallystick.store.events import Problem

LOCATED = ("stream", "seq", "position", "link")
PIECE_ROWS = 250_000
_PIECE_BUCKETS_MAX = 100


class VerifyPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Some buckets, with the positions whose payloads were erased since; or a range of the live log."""

    buckets: Sequence[Bucket] = ()
    erased: Sequence[int] = ()
    after: int = 0
    until: int = 0


def pieces_of(source: WholeLog, *, cores: int) -> list[VerifyPiece]:
    """The pieces of the whole log, in order."""
    found: list[VerifyPiece] = []
    waiting: list[Bucket] = []
    for bucket in source.manifest.buckets if source.manifest is not None else ():
        rows = sum(item.rows for item in waiting) + bucket.rows
        if waiting and (rows > PIECE_ROWS or len(waiting) >= _PIECE_BUCKETS_MAX):
            found.append(_archived(source, waiting))
            waiting = []
        waiting.append(bucket)
    if waiting:
        found.append(_archived(source, waiting))
    return [*found, *(VerifyPiece(after=part.after, until=part.until) for part in _ranges(source, cores))]


def _ranges(source: WholeLog, cores: int) -> list[Range]:
    """The ranges of the live log; in a log of runs, those of each run."""
    if not source.by_stream:
        return split(source.through, source.until, partition_events=None, cores=cores)
    with open_log(source.url) as store:
        return list(by_stream(store, LogQuery(url=source.url, over_holes=True, until=source.until, cores=cores)))


def _archived(source: WholeLog, buckets: list[Bucket]) -> VerifyPiece:
    return VerifyPiece(buckets=buckets, erased=within(source.erased, buckets[0].first, buckets[-1].last))


def check_pieces(spark: SparkSession, source: WholeLog, pieces: Sequence[VerifyPiece]) -> DataFrame:
    """The rows of `chain_check` for all pieces."""
    query = LogQuery(
        url=absolute_url(source.url), until=source.until, over_pruned=True, over_holes=True, unchecked=True, final=True
    )
    storage = source.storage
    return tasks.table(spark, pieces, lambda piece: batches(check(query, storage, piece)), DDL)


def check(query: LogQuery, storage: Storage | None, piece: VerifyPiece) -> Iterator[Found | pa.RecordBatch]:
    """The rows of one piece; runs in a worker."""
    events = ChainChecker()
    for bucket in piece.buckets:
        assert storage is not None
        yield from bucket_check.check(query, storage, bucket, piece.erased, events)
    if not piece.buckets:
        yield from _live(query, piece, events)
    yield from events.close()


def _live(query: LogQuery, piece: VerifyPiece, events: ChainChecker) -> Iterator[Found]:
    try:
        for batch in read_range(query, COLUMNS, Range(piece.after, piece.until)):
            yield from events.take(batch)
    except errors.TallyError as problem:
        reason = f"the live log cannot be read from position {piece.after + 1} on: {problem.message}"
        yield problem_row(Problem("log", reason, piece.after + 1))


def stored_events(spark: SparkSession, storage: Storage, names: Sequence[str]) -> DataFrame:
    """The location and link of every event in files of an archive, damaged ones too; statistics are not used."""
    return _rows_of(spark, storage, names, {name: SPARK_TYPES[name] for name in LOCATED})


def stored_ends(spark: SparkSession, storage: Storage, names: Sequence[str]) -> DataFrame:
    """The ends of streams in files of an archive."""
    return _rows_of(spark, storage, names, {name: SPARK_TYPES[name] for name in HEADS.names})


def _rows_of(spark: SparkSession, storage: Storage, names: Sequence[str], columns: dict[str, str]) -> DataFrame:
    def rows_of(name: str) -> Batches:
        with storage.opened(name) as path:
            yield from bucket_check.rows_of(path, list(columns))

    return tasks.table(spark, names, rows_of, ", ".join(f"{name} {kind}" for name, kind in columns.items()))
