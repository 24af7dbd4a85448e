"""The whole log in consecutive pieces: files of an archive, and ranges of the live log.

The task that works on a piece reads it in Python, so the JVM never sees its events. Small neighbouring files are one
piece; large files are split by row groups where cores would otherwise be idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline.archive import bucket_reader
from tallystick.pipeline.archive.bucket_reader import BucketFile
from tallystick.pipeline.archive.bucket_writer import group_batches
from tallystick.pipeline.source.columns import COLUMNS, Batches
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, absolute_url
from tallystick.pipeline.source.partitions import Range, split
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.whole_log import WholeLog
from tallystick.store.selection import Selection

CONTROL = "tally."


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """What one task reads: some files, with the positions that were erased since, or a range of the live log."""

    files: tuple[BucketFile, ...] = ()
    erased: tuple[int, ...] = ()
    after: int = 0
    until: int = 0


class StreamFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the users' streams, without those of control facts; only of `kinds`, if any are named."""

    kinds: tuple[str, ...] = ()

    def of(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The events of a batch that are in selected streams."""
        streams = events.column("stream")
        wanted = pc.invert(pc.starts_with(streams, CONTROL))
        if self.kinds:
            own = [pc.starts_with(streams, f"{kind}/") for kind in self.kinds]
            wanted = pc.and_(wanted, reduce(pc.or_, own))
        return events if pc.all(wanted).as_py() else events.filter(wanted)

    def among(self, events: DataFrame) -> DataFrame:
        """The events of a table that are in selected streams."""
        wanted = ~F.col("stream").startswith(CONTROL)
        if self.kinds:
            wanted &= F.substring_index("stream", "/", 1).isin(list(self.kinds))
        return events.where(wanted)


class PieceReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads pieces in the workers."""

    query: LogQuery
    storage: Storage | None = None
    names: tuple[str, ...] = COLUMNS  # `position` first, and `type` among them
    streams: StreamFilter | None = None  # None: all of them

    def tables(self, piece: LogPiece, table_bytes: int) -> Iterator[pa.Table]:
        """The selected events of a piece, in order, in tables of about `table_bytes`."""
        found: Batches
        if piece.files:
            found = (batch for file in piece.files for batch in self._of_file(file, piece.erased, table_bytes))
        else:
            found = read_range(self.query, self.names, Range(piece.after, piece.until))
        if self.streams is not None:
            found = filter(len, map(self.streams.of, found))
        return group_batches((part for batch in found for part in _bounded(batch, table_bytes)), table_bytes)

    def _of_file(self, file: BucketFile, erased: tuple[int, ...], table_bytes: int) -> Batches:
        assert self.storage is not None
        for batch in bucket_reader.read(self.storage, file, self.names, table_bytes=table_bytes):
            found = self._chosen(batch, erased)
            if found.num_rows:
                yield found

    def _chosen(self, batch: pa.RecordBatch, erased: tuple[int, ...]) -> pa.RecordBatch:
        """The rows of the selected types up to `until`, without payloads that were erased since."""
        until, types = self.query.until, self.query.selection.types
        batch = bucket_reader.without_payloads(batch, erased)
        if until is not None and batch.column("position")[-1].as_py() > until:
            batch = batch.filter(pc.less_equal(batch.column("position"), until))
        if types:
            is_chosen = pc.is_in(batch.column("type"), pa.array(sorted(types)))
            if not pc.all(is_chosen).as_py():
                batch = batch.filter(is_chosen)
        return batch


def _bounded(batch: pa.RecordBatch, table_bytes: int) -> Batches:
    """A batch in parts of at most about `table_bytes`."""
    rows = max(table_bytes * batch.num_rows // max(batch.nbytes, 1), 1)
    for begin in range(0, batch.num_rows, rows):
        yield batch.slice(begin, rows)


def cut_pieces(
    source: WholeLog, types: tuple[str, ...], *, cores: int, streams: StreamFilter | None = None
) -> tuple[list[LogPiece], PieceReader]:
    """The pieces of the whole log, in order, and a reader for the events of these types and streams."""
    query = LogQuery(
        url=absolute_url(source.url),
        until=source.until,
        selection=Selection(types=frozenset(types)),
        over_pruned=source.over_pruned,
        over_holes=source.over_holes,
        final=True,
    )
    ranges = split(source.through, source.until, partition_events=None, cores=cores)
    live = [LogPiece(after=part.after, until=part.until) for part in ranges]
    return [*_archived(source, cores), *live], PieceReader(query=query, storage=source.storage, streams=streams)


def _archived(source: WholeLog, cores: int) -> list[LogPiece]:
    """The pieces of an archive."""
    return [_piece(files, source.erased) for files in bucket_reader.read_shares(_files(source), cores=cores)]


def _piece(files: tuple[BucketFile, ...], erased: tuple[int, ...]) -> LogPiece:
    return LogPiece(files=files, erased=tuple(bucket_reader.within(erased, files[0].first, files[-1].last)))


def _files(source: WholeLog) -> list[BucketFile]:
    if source.manifest is None or source.storage is None:
        return []
    found = []
    for bucket in source.manifest.buckets:
        file = bucket_reader.file_of(bucket)
        if file is not None and bucket.first <= source.until:
            found.append(file)
    return found
