"""The events of a log into a table: whatever is behind the mark, from the archive as far as it goes and then the log.

First the payloads go that were erased since the mark; then rows are added, one commit for about a million of them, and
the mark moves in the same commit. Killed anywhere, the next run does what is left: an erasure that was done already
finds nothing, and a commit that did not come about left the mark where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tallystick import errors
from tallystick.pipeline.archive import bucket_reader
from tallystick.pipeline.archive.history import erasures
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
from tallystick.pipeline.source.log_query import LogQuery, absolute, open_log, require_order
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.spark.progress import Show
from tallystick.pipeline.storage.port import Storage
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.store.store import Store


class TableAppendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `left`: data files that the newest version does not name and that may hold erased payloads."""

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
    """Bring a table up to the safe head; `forget` removes old versions, and what killed runs left."""
    if buckets is not None and not 1 <= buckets <= BUCKETS_MAX:
        raise errors.InvalidValue(what="buckets", value=str(buckets), must=f"from 1 to {BUCKETS_MAX}")
    table = table_at(destination, format)
    begun = retry_commit(table, lambda: _begun(table, url, buckets))
    _require_buckets(table, begun, buckets)
    source = _source(url, archive, begun.through)
    erased = retry_commit(table, lambda: _erase(table, source))
    events = commits = 0
    while (
        added := retry_commit(table, lambda: _added(table, source, commit_events or table.commit_events))
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


def _begun(table: Table, url: str, buckets: int | None) -> TableMark:
    """The mark of a table that is of this log; of a new one if there is none."""
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
    """Where the rows come from. What was pruned in front of the mark is in the table already."""
    with open_log(url) as store:
        is_there = store.log.floor() <= through
    return whole_log(url, archive, over_pruned=is_there, seen=through)


def _erase(table: Table, source: WholeLog) -> int:
    mark = read_mark(table)
    with open_log(source.url) as store:
        positions = _erased_since(store, mark, source)
    return table.erase(positions) if positions else 0


def _erased_since(store: Store, mark: TableMark, source: WholeLog) -> list[int]:
    return erasures(store, after=mark.through, until=source.until)


def _added(table: Table, source: WholeLog, commit_events: int) -> int | None:
    """Add the next rows behind the mark; how many, or None if there is nothing behind it."""
    mark = read_mark(table)
    if mark.through >= source.until:
        return None
    through = _next_end(source, mark.through, commit_events)
    rows = GuardedRows(rows_of(source, Range(mark.through, through), mark.buckets))
    with rows.clearly():
        table.append(rows, through=through)
    return rows.count


def _next_end(source: WholeLog, after: int, commit_events: int) -> int:
    """Where a commit ends: with a bucket of the archive, so that no file is read for two commits without need."""
    end = min(after + commit_events, source.until)
    buckets = source.manifest.buckets if source.manifest is not None else []
    history = [bucket.last for bucket in buckets if after < bucket.last <= end]
    return history[-1] if history and end <= source.through else end


def rows_of(source: WholeLog, part: Range, buckets: int, *, over_pruned: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a range of positions, as a table has them, in order.

    What is pruned while they are read is refused like what was pruned before, unless what is left is asked for.
    """
    for batch in _events_of(source, part, over_pruned):
        batch.validate(full=True)  # a library would take for UTF-8 what is not
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
        query = LogQuery(url=absolute(source.url), until=part.until, over_pruned=over_pruned, final=True)
        yield from read_range(query, COLUMNS, Range(after, part.until))


def _within(batch: pa.RecordBatch, part: Range) -> pa.RecordBatch:
    position = batch.column(batch.schema.get_field_index("position"))
    return batch.filter(pc.and_(pc.greater(position, part.after), pc.less_equal(position, part.until)))
