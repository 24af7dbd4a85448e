"""Finding the control facts of one type in a range of the log: in this process if the range is short, else by tasks.

Facts are stored among all other events, so the whole range is read to find them. The driver receives only the values
that were picked from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession

from tallystick import Store
from tallystick.event.model import Event
from tallystick.pipeline.source.log_query import LogQuery, absolute_url, address_of, head_past, open_for
from tallystick.pipeline.source.partitions import Range, pages, split
from tallystick.pipeline.spark import tasks
from tallystick.store import facts
from tallystick.store.selection import Selection

SHORT_EVENTS = 100_000  # a job takes as long to start as these take to read

Picked = TypeVar("Picked")
Pick = Callable[[Event], Picked | None]


class FactRange(NamedTuple):
    """The facts of a type after one position, up to another; with `over_holes` only those that can be read."""

    type: str
    after: int
    until: int
    over_holes: bool = False


def collect_facts(
    store: Store, spark: SparkSession | None, sought: FactRange, pick: Pick[Picked], kind: type[Picked]
) -> list[Picked]:
    """The values that `pick` returns for the facts about streams, each value once, in the order of the log."""
    after, until = sought.after, sought.until
    query = LogQuery(
        url=absolute_url(address_of(store)),
        selection=Selection(types=frozenset({sought.type})),
        over_pruned=True,
        over_holes=sought.over_holes,
        final=True,
    )
    if spark is None or until - after <= SHORT_EVENTS:
        return _once(_picked(store, query, Range(after, until), pick))

    def search(part: Range) -> list[Picked]:
        with open_for(query) as opened:
            head_past(opened, part.until)
            return _once(_picked(opened, query, part, pick))

    ranges = split(after, until, partition_events=None, cores=tasks.cores(spark))
    parts = tasks.run_each(spark, ranges, search, list[kind])  # type: ignore[valid-type]
    return _once(one for part in parts for one in part)


def _picked(store: Store, query: LogQuery, part: Range, pick: Pick[Picked]) -> Iterator[Picked]:
    for events in pages(store, query, part):
        for event in events:
            if facts.is_about_streams(event.stream) and (found := pick(event)) is not None:
                yield found


def _once(found: Iterator[Picked]) -> list[Picked]:
    return list(dict.fromkeys(found))
