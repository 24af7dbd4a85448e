"""Checking a bucket of an archive against its manifest, its own chains and the live log.

Damage does not raise: every finding is passed on, so that one damaged file does not hide the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tallystick import errors
from tallystick.event.chain import checksum as checksum_of
from tallystick.pipeline.archive import archive_files
from tallystick.pipeline.archive.bucket_reader import within, without_payloads, wrong_blocks, wrong_form
from tallystick.pipeline.archive.bucket_writer import HEADS
from tallystick.pipeline.archive.manifest import BLOCK_POSITIONS, Bucket, DataFile
from tallystick.pipeline.source.columns import COLUMNS, Batches, arrow_schema, to_rows
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, open_for
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.verify.chain_check import READABLE, ChainChecker, Found, problem_row
from tallystick.store.events import Problem
from tallystick.store.store import Store

PROBLEMS_MAX = 1000
_LIVE = ("position", "stream", "seq", "link", "payload", "checksum")
_KEPT = ["position", "stream", "seq", "link"]
_IN_BLOCKS = ["position", "link"]
_ROWS_A_BATCH = 8192


def check(
    query: LogQuery, storage: Storage, bucket: Bucket, erased: Sequence[int], events: ChainChecker
) -> Iterator[Found]:
    """Everything that is wrong with a bucket; its events are passed to `events`. Runs in a worker."""
    if bucket.heads is not None:
        yield from _heads(storage, bucket, bucket.heads)
    rows: list[pa.RecordBatch] = []
    comparison = _LogComparison(query, bucket)
    if bucket.events is not None:
        gone = within(erased, bucket.first, bucket.last)
        try:
            with storage.opened(bucket.events.name) as path:
                yield from (_about(bucket, reason) for reason in _wrong_file(path, bucket.events))
                for batch in rows_of(path):
                    batch = without_payloads(batch, gone)
                    rows.append(batch.select(_IN_BLOCKS))
                    yield from events.take(batch)
                    comparison.take(batch)
            yield {"kind": READABLE, "what": bucket.events.name}
        except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
            yield _about(bucket, why_unreadable(bucket.events, problem))
            return
    table = pa.Table.from_batches(rows, arrow_schema(_IN_BLOCKS)).combine_chunks()
    yield from map(problem_row, islice(chain(_against_manifest(bucket, table), comparison.problems()), PROBLEMS_MAX))


def _about(bucket: Bucket, reason: str) -> Found:
    return problem_row(Problem("archive", reason, bucket.first))


def _named(file: DataFile) -> str:
    return file.name.rpartition("/")[2]


def why_unreadable(file: DataFile, problem: Exception) -> str:
    """The error of the file system or of Parquet, with the name of the file."""
    if isinstance(problem, FileNotFoundError):
        return f"{_named(file)} is missing"
    return f"{_named(file)} cannot be read: {str(problem).partition(chr(10))[0]}"


def _heads(storage: Storage, bucket: Bucket, file: DataFile) -> Iterator[Found]:
    try:
        with storage.opened(file.name) as path:
            yield from (_about(bucket, reason) for reason in _wrong_rows(path, file))
            if not pq.read_schema(path).equals(HEADS):
                raise ValueError("its columns are not those of stream ends")
            for _ in rows_of(path, HEADS.names):
                pass
        yield {"kind": READABLE, "what": file.name}
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        yield _about(bucket, why_unreadable(file, problem))


def _wrong_rows(path: Path, file: DataFile) -> Iterator[str]:
    """How a file differs from the one that the manifest names."""
    if archive_files.hash_of(path) != file.sha256:
        yield f"{_named(file)} is not the file that the manifest names"
    if (rows := archive_files.rows_in(path)) != file.rows:
        yield f"{_named(file)} has {rows} rows, not {file.rows}"


def _wrong_file(path: Path, file: DataFile) -> Iterator[str]:
    """How a file with events differs from the manifest, or its statistics from its rows: other tools use those."""
    yield from _wrong_rows(path, file)
    if (reason := wrong_form(pq.read_schema(path))) is not None:
        raise ValueError(reason)
    if next(wrong_statistics(path), None) is not None:
        yield f"{_named(file)} has statistics that are not those of its rows"


def wrong_statistics(path: Path) -> Iterator[int]:
    """The row groups whose statistics of positions are wrong."""
    with pq.ParquetFile(path) as opened:
        at = opened.metadata.schema.names.index("position")
        for number in range(opened.num_row_groups):
            said = opened.metadata.row_group(number).column(at).statistics
            found = pc.min_max(opened.read_row_group(number, columns=["position"])["position"]).as_py()
            if said is not None and said.has_min_max and (said.min, said.max) != (found["min"], found["max"]):
                yield number


def rows_of(path: str | Path, names: Sequence[str] = COLUMNS) -> Batches:
    """Every row of a file, unchecked."""
    with pq.ParquetFile(path, pre_buffer=False) as opened:
        for batch in opened.iter_batches(_ROWS_A_BATCH, columns=list(names), use_threads=False):
            yield batch.select(list(names))


def _against_manifest(bucket: Bucket, rows: pa.Table) -> Iterator[Problem]:
    """Whether the rows are in order, within their bounds, and have the digests of their blocks."""
    positions = rows["position"].to_numpy()
    is_ordered = bool(np.all(positions[1:] > positions[:-1]))
    if len(positions) and not (is_ordered and bucket.first <= positions[0] and positions[-1] <= bucket.last):
        reason = f"the rows from position {bucket.first} on do not ascend within their bucket"
        yield Problem("archive", reason, bucket.first)
    for block in wrong_blocks(iter(rows.to_batches()), bucket.blocks):
        first = max(bucket.first, block.number * BLOCK_POSITIONS + 1)
        reason = f"the positions from {first} on do not have the {block.rows} rows that were archived"
        yield Problem("block", reason, first)


class _LogComparison:
    """Compares a bucket with the live log, which is read in parallel.

    Rows that are equal in both, payloads included, are dropped: the archive's rows are checked anyway. The others are
    kept, and compared at the end.
    """

    def __init__(self, query: LogQuery, bucket: Bucket) -> None:
        self._query = query
        self._bucket = bucket
        self._live = read_range(query, _LIVE, Range(bucket.first - 1, bucket.last))
        self._next: pa.RecordBatch | None = None
        self._rows: list[pa.RecordBatch] = []
        self._others: list[pa.RecordBatch] = []
        self._wrong: list[Problem] = []
        self._is_over = False

    def take(self, rows: pa.RecordBatch) -> None:
        """Take in the next rows of the bucket."""
        if self._is_over:
            return
        last = pc.max(rows.column("position")).as_py()
        live = self._up_to(last if last is not None else 0)
        if not live.equals(pa.Table.from_batches([rows.select(list(_LIVE))])):
            self._rows.append(rows.select(_KEPT))
            self._differs(live)

    def problems(self) -> Iterator[Problem]:
        """Events that the live log has and the bucket lacks or has differently; and events that only the bucket has."""
        self._differs(self._up_to(self._bucket.last))
        yield from self._wrong
        if self._is_over:
            return
        rows = pa.Table.from_batches(self._rows, arrow_schema(_KEPT)).sort_by("position").combine_chunks()
        is_seen = np.zeros(rows.num_rows, bool)
        for batch in self._others:
            yield from _others(batch, rows, is_seen)
        try:
            with open_for(self._query) as store:
                yield from _lost(store, rows.filter(pa.array(~is_seen)))
        except errors.TallyError as problem:
            yield self._unreadable(problem)

    def _differs(self, live: pa.Table) -> None:
        for batch in live.to_batches():
            room = PROBLEMS_MAX - len(self._wrong)
            self._wrong += islice(_payloads(batch), room)
            self._others.append(batch.select(_KEPT))

    def _up_to(self, position: int) -> pa.Table:
        """The next live events, up to a position."""
        found: list[pa.RecordBatch] = []
        try:
            while (batch := self._next if self._next is not None else next(self._live, None)) is not None:
                count = int(np.searchsorted(batch.column("position").to_numpy(), position, side="right"))
                found.append(batch.slice(0, count))
                self._next = batch.slice(count) if count < batch.num_rows else None
                if self._next is not None:
                    break
        except errors.TallyError as problem:
            self._is_over = True
            self._wrong.append(self._unreadable(problem))
        return pa.Table.from_batches(found, arrow_schema(_LIVE))

    def _unreadable(self, problem: errors.TallyError) -> Problem:
        reason = f"the live log cannot be read from position {self._bucket.first} on: {problem.message}"
        return Problem("log", reason, self._bucket.first)


def _payloads(batch: pa.RecordBatch) -> Iterator[Problem]:
    """Live payloads that do not have their checksum."""
    for position, stream, seq, _, payload, checksum in to_rows(batch, _LIVE):
        if payload is not None and checksum_of(payload) != checksum:
            reason = "in the live log the payload does not have its checksum"
            yield Problem("checksum", reason, position, stream, seq)


def _others(batch: pa.RecordBatch, rows: pa.Table, is_seen: np.ndarray) -> Iterator[Problem]:
    """Live events that the archive lacks, or has another event instead of."""
    known, live = rows["position"].to_numpy(), batch.column("position").to_numpy()
    at = np.searchsorted(known, live)
    is_there = np.zeros(len(live), bool)
    inside = at < len(known)
    is_there[inside] = known[at[inside]] == live[inside]
    links = rows["link"].take(pa.array(at[is_there]))
    own = batch.column("link").filter(pa.array(is_there))
    is_same = pc.fill_null(pc.equal(links, own), False).to_numpy(zero_copy_only=False).astype(bool)
    is_seen[at[is_there]] = True
    others = np.flatnonzero(is_there)[~is_same]
    for reason, found in (
        ("the live log has this event, the archive does not", np.flatnonzero(~is_there)),
        ("the archive has another event here", others),
    ):
        places = (batch.column(name).take(pa.array(found)).to_pylist() for name in _KEPT[:3])
        for position, stream, seq in zip(*places, strict=True):
            yield Problem("archive", reason, position, stream, seq)


def _lost(store: Store, rows: pa.Table) -> Iterator[Problem]:
    """Archived events that the log lacks, although they were not pruned and are in no hole."""
    cuts: dict[str, int] = {}
    holes = [(hole.first, hole.last) for hole in store.log.holes()]
    for position, stream, seq in zip(*(rows[name].to_pylist() for name in _KEPT[:3]), strict=True):
        if any(first <= position <= last for first, last in holes):
            continue
        if stream not in cuts:
            cut = store.cut(stream)
            cuts[stream] = cut.through if cut is not None else 0
        if seq > cuts[stream]:
            yield Problem("archive", "the archive has this event, the live log does not", position, stream, seq)
