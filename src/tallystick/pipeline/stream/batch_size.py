"""How far a batch of `stream` goes: at most so many bytes of events, counted by the tasks in parallel.

Each task counts a range of positions, and gives back marks: up to where how many bytes lie. The driver adds them up and
ends the batch at a mark. So a batch keeps to its bytes, but for one event that has more; and it is nearly full.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
from pyspark.sql import SparkSession

from tallystick.event.limits import EVENT_BYTES_MAX
from tallystick.pipeline.source.log_query import LogQuery, open_asked
from tallystick.pipeline.source.partitions import EVENT_BYTES, Range, bytes_of, pages, split
from tallystick.pipeline.spark import tasks
from tallystick.store.store import Store

MARKS = 64  # how finely the end of a batch is chosen

Mark = tuple[int, int]  # a position, and the bytes of chosen events after the mark before and up to it


def end_of_batch(spark: SparkSession, query: LogQuery, after: int, until: int, *, bytes_max: int) -> int:
    """How far (after, until] goes with so many bytes of chosen events, or with one event that has more."""
    if (until - after) * (EVENT_BYTES_MAX + EVENT_BYTES) <= bytes_max:
        return until
    asked = msgspec.structs.replace(query, unchecked=True)
    ranges = split(after, until, partition_events=None, cores=tasks.cores(spark))

    def count(part: Range) -> list[Mark]:
        with open_asked(asked) as store:
            return marks_in(store, asked, part, bytes_max=bytes_max)

    found = tasks.run_each(spark, ranges, count, list[Mark])
    return last_within(list(chain.from_iterable(found)), after, until, bytes_max=bytes_max)


def marks_in(store: Store, query: LogQuery, part: Range, *, bytes_max: int) -> list[Mark]:
    """The marks of a range, up to where it alone has too many bytes."""
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
    """The last mark with at most so many bytes before it; the first one, which may be one large event, at the least."""
    left, last = bytes_max, after
    for position, size in marks:
        left -= size
        if left < 0:
            return last if last > after else position
        last = position
    return until
