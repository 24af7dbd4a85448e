"""Adding the events of a log to a table: those after the mark, from the archive as far as it goes, then from the log.

First the payloads that were erased since the mark are removed. Then rows are added, in commits of about a million, and
each commit moves the mark too. After a kill the next run does the rest: an erasure that was done finds nothing, and a
commit that failed did not move the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tallystick import errors
from tallystick.pipeline.archive import bucket_reader
from tallystick.pipeline.archive.history import erased_positions
from tallystick.pipeline.lake import history
from tallystick.pipeline.lake.schema import BUCKETS, BUCKETS_MAX, SCHEMA, with_partitions
from tallystick.pipeline.lake.table import (
    GuardedRows,
    Table,
    TableMark,
    read_mark,
    remove_old_files,
    require_content,
    require_empty,
    require_one_winner,
    retry_commit,
    table_at,
)
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, absolute_url, open_log, require_order
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.spark.progress import Show
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.store.store import Store


class TableAppendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `left`: data files that the newest version does not name; they may hold erased payloads."""

    format: str
    events: int
    commits: int
    erased: int
    through: int
    removed: int
    left: int


def append(
    url: str,
    destination: str | Path | Storage,
    format: str | None = None,
    *,
    archive: str | Path | Storage | None = None,
    buckets: int | None = None,
    commit_events: int | None = None,
    forget: bool = False,
    show: Show | None = None,
) -> TableAppendResult:
    """Add all events up to the safe head; `forget` removes old versions, and files that killed runs left."""
    if buckets is not None and not 1 <= buckets <= BUCKETS_MAX:
        raise errors.InvalidValue(what="buckets", value=str(buckets), must=f"from 1 to {BUCKETS_MAX}")
    table = table_at(destination, format)
    begun = retry_commit(table, lambda: _require_mark(table, url, buckets))
    _require_buckets(table, begun, buckets)
    source = _source(url, archive, begun.through)
    erased = retry_commit(table, lambda: _erase(table, source))
    events = commits = 0
    while (
        added := retry_commit(table, lambda: _append_next(table, source, commit_events or table.commit_events))
    ) is not None:
        events, commits = events + added, commits + 1
        if show is not None:
            show(read_mark(table).through - begun.through, source.until - begun.through)
    removed = remove_old_files(table) if forget else 0
    through = read_mark(table).through
    return TableAppendResult(
        format=table.format,
        events=events,
        commits=commits,
        erased=erased,
        through=through,
        removed=removed,
        left=table.left(),
    )


def _require_mark(table: Table, url: str, buckets: int | None) -> TableMark:
    """The mark of the table of this log; the table is created if it does not exist."""
    with open_log(url) as store:
        require_order(store, what="make a table of")
        mark = table.mark()
        if mark is None:
            require_empty(table)
            require_one_winner(table)
            table.begin(TableMark(store_id=store.log.store_id.hex(), through=0, buckets=buckets or BUCKETS), SCHEMA)
            mark = read_mark(table)
        require_content(table, mark, projection="")
        history.require_same_history(table, mark, store)
        require_one_winner(table)
        return mark


def _require_buckets(table: Table, mark: TableMark, buckets: int | None) -> None:
    if buckets not in (None, mark.buckets):
        raise errors.WrongTable(path=str(table.storage), reason=f"it has {mark.buckets} buckets, not {buckets}")


def _source(url: str, archive: str | Path | Storage | None, through: int) -> WholeLog:
    """The sources of the rows. Events that were pruned before the mark are in the table already."""
    with open_log(url) as store:
        is_there = store.log.floor() <= through
    return whole_log(url, archive, over_pruned=is_there, seen=through)


def _erase(table: Table, source: WholeLog) -> int:
    mark = read_mark(table)
    with open_log(source.url) as store:
        positions = _erased_since(store, mark, source)
    return table.erase(positions) if positions else 0


def _erased_since(store: Store, mark: TableMark, source: WholeLog) -> list[int]:
    return erased_positions(store, after=mark.through, until=source.until)


def _append_next(table: Table, source: WholeLog, commit_events: int) -> int | None:
    """Add the next rows after the mark; the number of rows, or None if no event is after it."""
    mark = read_mark(table)
    if mark.through >= source.until:
        return None
    through = _next_end(source, mark.through, commit_events)
    rows = GuardedRows(rows_of(source, Range(mark.through, through), mark.buckets))
    with rows.own_errors():
        table.append(rows, through=through)
    return rows.count


def _next_end(source: WholeLog, after: int, commit_events: int) -> int:
    """The end of a commit: the end of a bucket of the archive, if possible, so that files are not read twice."""
    end = min(after + commit_events, source.until)
    buckets = source.manifest.buckets if source.manifest is not None else []
    ends = [bucket.last for bucket in buckets if after < bucket.last <= end]
    return ends[-1] if ends and end <= source.through else end


def rows_of(source: WholeLog, part: Range, buckets: int, *, over_pruned: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a range of positions, in order.

    Events that are pruned meanwhile are refused like events that were pruned before, unless `over_pruned` is set.
    """
    for batch in _events_of(source, part, over_pruned):
        batch.validate(full=True)  # the libraries do not check that texts are UTF-8
        yield with_partitions(batch, buckets)


def _events_of(source: WholeLog, part: Range, over_pruned: bool) -> Iterator[pa.RecordBatch]:
    if source.manifest is not None and source.storage is not None:
        for bucket in source.manifest.buckets:
            file = bucket_reader.file_of(bucket)
            if file is None or bucket.last <= part.after or bucket.first > part.until:
                continue
            for batch in bucket_reader.read(source.storage, file):
                yield bucket_reader.without_payloads(_within(batch, part), source.erased)
    after = max(part.after, source.through)
    if after < part.until:
        query = LogQuery(url=absolute_url(source.url), until=part.until, over_pruned=over_pruned, final=True)
        yield from read_range(query, COLUMNS, Range(after, part.until))


def _within(batch: pa.RecordBatch, part: Range) -> pa.RecordBatch:
    position = batch.column("position")
    return batch.filter(pc.and_(pc.greater(position, part.after), pc.less_equal(position, part.until)))
