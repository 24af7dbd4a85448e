"""The end of a batch of `stream`: at most so many bytes of events, counted by tasks in parallel.

Each task counts a range of positions and returns marks: positions, each with the bytes since the mark before. The
driver adds them up and ends the batch at a mark. So a batch is nearly full and within its bytes, unless a single event
has more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
from pyspark.sql import SparkSession

from tallystick.event.limits import EVENT_BYTES_MAX
from tallystick.pipeline.source.log_query import LogQuery, open_for
from tallystick.pipeline.source.partitions import EVENT_BYTES, Range, bytes_of, pages, split
from tallystick.pipeline.spark import tasks
from tallystick.store.store import Store

MARKS = 64  # marks per batch: how precisely its end is chosen

Mark = tuple[int, int]  # a position, and the bytes of selected events since the mark before


def end_of_batch(spark: SparkSession, query: LogQuery, after: int, until: int, *, bytes_max: int) -> int:
    """The end of a batch in (after, until] with at most `bytes_max` of selected events, or with one larger event."""
    if (until - after) * (EVENT_BYTES_MAX + EVENT_BYTES) <= bytes_max:
        return until
    asked = msgspec.structs.replace(query, unchecked=True)
    ranges = split(after, until, partition_events=None, cores=tasks.cores(spark))

    def count(part: Range) -> list[Mark]:
        with open_for(asked) as store:
            return marks_in(store, asked, part, bytes_max=bytes_max)

    found = tasks.run_each(spark, ranges, count, list[Mark])
    return last_within(list(chain.from_iterable(found)), after, until, bytes_max=bytes_max)


def marks_in(store: Store, query: LogQuery, part: Range, *, bytes_max: int) -> list[Mark]:
    """The marks of a range, up to where the range alone has too many bytes."""
    marks: list[Mark] = []
    total = size = 0
    for events in pages(store, query, part):
        for event in events:
            its = bytes_of(event)
            if size and (size + its) * MARKS > bytes_max:
                marks.append((event.position - 1, size))
                size = 0
            size += its
            total += its
            if total > bytes_max:
                return [*marks, (event.position, size)]
    return [*marks, (part.until, size)]


def last_within(marks: Sequence[Mark], after: int, until: int, *, bytes_max: int) -> int:
    """The last mark with at most `bytes_max` before it, but at least the first: it may be one large event."""
    left, last = bytes_max, after
    for position, size in marks:
        left -= size
        if left < 0:
            return last if last > after else position
        last = position
    return until
