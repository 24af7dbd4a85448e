"""Partitions for the option `stream`: each is a range of one stream, read by the stream index of the log.

Positions are still the bounds. The seqs between them are found by binary search, so a stream is not read from its
beginning, nor past the end of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from tallystick.event.model import Event
from tallystick.pipeline.source.log_query import BATCH_EVENTS, LogQuery, has_order
from tallystick.store import iterate
from tallystick.store.maintenance import require_positions
from tallystick.store.server_sql import SqlServerLog
from tallystick.store.store import Store

STREAMS_MAX = 100
RANGE_EVENTS = 250_000


@dataclass
class StreamRange(InputPartition):
    """Events of one stream with seqs after `after`, up to `until`."""

    stream: str
    after: int
    until: int


def reads_by_stream(store: Store, query: LogQuery) -> bool:
    """Whether the streams of a query are read one by one. A server always uses its own index instead."""
    is_ordered = has_order(store) and not isinstance(store.log, SqlServerLog)
    is_plain = (
        not query.over_holes and not query.unchecked
    )  # these also ask for damaged events, which only a read by position gives
    return is_ordered and is_plain and 0 < len(query.selection.streams) <= STREAMS_MAX


def plan(store: Store, query: LogQuery, until: int) -> list[StreamRange]:
    """The ranges of each stream between the positions of a query."""
    if not query.over_pruned:
        cuts = {name: cut for name in query.selection.streams if (cut := store.log.cut(name)) is not None}
        require_positions(query.selection, cuts, store.log.floor(), after=query.after)
    size = query.partition_events or RANGE_EVENTS
    found = []
    for stream in sorted(query.selection.streams):
        first, last = _after(store, stream, query.after), _after(store, stream, until)
        found += [StreamRange(stream, begin, min(begin + size, last)) for begin in range(first, last, size)]
    return found


def _after(store: Store, stream: str, position: int) -> int:
    """The last seq of a stream at or before a position; 0 if no event is there."""
    head, cut = store.log.stream_head(stream), store.log.cut(stream)
    low, high = cut.through if cut is not None else 0, head.seq if head is not None else 0
    while low < high:
        middle = (low + high + 1) // 2
        event = iterate.at(store.log, stream, middle)
        assert event is not None, "it is between the cut and the head of its stream"
        low, high = (middle, high) if event.position <= position else (low, middle - 1)
    return low


def pages(store: Store, query: LogQuery, part: StreamRange) -> Iterator[list[Event]]:
    """The selected events of a range, in lists."""
    wanted = query.selection.predicate()
    for events in iterate.stream_pages(store.log, part.stream, after=part.after, until=part.until, limit=BATCH_EVENTS):
        yield [event for event in events if wanted(event)]
