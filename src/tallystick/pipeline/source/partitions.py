"""How a log is split for Spark: into ranges of positions, fixed when a table is planned, and read through the port.

A range names positions, not files, so rotation, sealing and compaction between planning and reading do no harm. The
upper bound is the safe head at the time of planning. A log without an order over all of its streams (ndjson) is split
by stream, each up to its own end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline.source import stream_ranges
from tallystick.pipeline.source.log_query import BATCH_EVENTS, PARTITIONS_MAX, LogQuery, has_order
from tallystick.pipeline.source.stream_ranges import StreamRange
from tallystick.store import iterate
from tallystick.store.store import Store

PARTITIONS_A_CORE = 2
PARTITION_EVENTS_MIN = 25_000  # to start a task costs Spark as much as ten thousand events
PARTITION_EVENTS_MAX = 250_000
PARTITION_BYTES_MAX = 256 << 20
PARTITION_EVENTS_SAMPLED = 1000  # fewer events are one task, whatever their size
SAMPLES, SAMPLE_EVENTS = 8, 20
EVENT_BYTES = 200  # the size of an event without its payload and meta
_STREAMS_PAGE = 100  # a log remembers only the damage of the streams that it read last


@dataclass
class Range(InputPartition):
    """Positions after `after`, up to `until`."""

    after: int
    until: int


def split(after: int, until: int, *, partition_events: int | None, cores: int = 2) -> list[Range]:
    """Ranges of one size that cover (after, until]. Without `partition_events` the size suits events and cores."""
    count = until - after
    fit = min(max(-(-count // (cores * PARTITIONS_A_CORE)), PARTITION_EVENTS_MIN), PARTITION_EVENTS_MAX)
    size = max(partition_events or fit, -(-count // PARTITIONS_MAX))
    return [Range(begin, min(begin + size, until)) for begin in range(after, until, size)]


def plan(store: Store, query: LogQuery) -> Sequence[Range | StreamRange]:
    """The ranges of a query, up to the safe head of now. Never an empty list: Spark would invent a partition."""
    if not has_order(store):
        return list(by_stream(store, query)) or [Range(query.after, query.after)]
    if query.final and query.until is not None:
        until = query.until
    else:
        head = store.log.head()
        until = head if query.until is None else min(query.until, head)
    if stream_ranges.reads_by_stream(store, query):
        return stream_ranges.plan(store, query, until) or [Range(query.after, query.after)]
    found = split(query.after, until, partition_events=_size(store, query, until), cores=_cores(query))
    return found or [Range(query.after, query.after)]


def _cores(query: LogQuery) -> int:
    """How many tasks run at a time; by default as many as this machine has cores."""
    return query.cores or os.cpu_count() or 1


def _size(store: Store, query: LogQuery, until: int) -> int | None:
    """The positions per task, if the query sets it or events are large; None if the number of events decides."""
    count = until - query.after
    if query.partition_events is not None or count <= PARTITION_EVENTS_SAMPLED:
        return query.partition_events
    found: list[Event] = []
    for number in range(SAMPLES):
        begin = query.after + count * number // SAMPLES
        page = store.log.read(
            after=begin, until=until, limit=SAMPLE_EVENTS, over_pruned=True, over_holes=True, unchecked=True
        )
        found += page.events
    size = sum(map(bytes_of, found))
    fit = PARTITION_BYTES_MAX * len(found) // max(size, 1)
    even = -(-count // (_cores(query) * PARTITIONS_A_CORE))
    return max(fit, 1) if fit < min(max(even, PARTITION_EVENTS_MIN), PARTITION_EVENTS_MAX) else None


def bytes_of(event: Event) -> int:
    """The approximate size of an event in bytes."""
    return len(event.payload or b"") + len(event.meta) + EVENT_BYTES


def end_by_bytes(store: Store, query: LogQuery, after: int, until: int) -> int:
    """The end of a batch in (after, until]: at most `trigger_bytes` of selected events, or one larger event."""
    assert query.trigger_bytes is not None
    left, last = query.trigger_bytes, after
    for events in pages(store, query, Range(after, until)):
        for event in events:
            left -= bytes_of(event)
            if left < 0:
                return last if last > after else event.position
            last = event.position
    return until


def by_stream(store: Store, query: LogQuery) -> Iterator[Range]:
    """The ranges of each selected stream: the positions of a stream are consecutive, and no other stream has them."""
    wanted, name = query.selection.streams, ""
    while found := store.log.streams(after=name, limit=_STREAMS_PAGE):
        for info in found:
            if not wanted or info.stream in wanted:
                before = _before(store, info.stream)
                begin = max(before, query.after)
                end = before + info.seq if query.until is None else min(before + info.seq, query.until)
                if begin < end:
                    yield from split(begin, end, partition_events=query.partition_events, cores=_cores(query))
        name = found[-1].stream
        if not query.over_holes:  # no range includes a damaged end: it would be left out silently
            _require_whole(store, query)


def _require_whole(store: Store, query: LogQuery) -> None:
    for hole in store.log.holes():
        if hole.last > query.after and (query.until is None or hole.first <= query.until):
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)


def _before(store: Store, stream: str) -> int:
    """The position before a stream's first event."""
    try:
        (first,) = store.log.read_stream(stream, limit=1)
    except errors.Damaged as damage:  # the first event is damaged: the hole begins at its position
        return int(damage.values["first"]) - 1
    return first.position - first.seq


def pages(store: Store, query: LogQuery, part: Range | StreamRange) -> Iterator[list[Event]]:
    """The events of a range, in lists of up to `BATCH_EVENTS`."""
    if isinstance(part, StreamRange):
        yield from stream_ranges.pages(store, query, part)
        return
    through = part.after
    for page in iterate.pages(
        store.log,
        after=part.after,
        until=part.until,
        selection=query.selection,
        limit=BATCH_EVENTS,
        over_holes=query.over_holes,
        over_pruned=query.over_pruned,
        unchecked=query.unchecked,
    ):
        if page.events:
            yield page.events
        through = page.through
    if through < part.until:
        reason = f"the log gives nothing between {through} and {part.until}: an append under way may hold it back"
        raise errors.JobFailed(reason=reason)
