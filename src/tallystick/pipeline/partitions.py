"""How a log is split for Spark: ranges of positions, fixed when a table is planned, read through the port.

A range names positions and no files: whoever reads it opens segments by their identity, so that rotation, sealing and
compaction between planning and reading change nothing. The upper bound is the safe head of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from tallystick.event.model import Event
from tallystick.pipeline.question import BATCH_EVENTS, PARTITIONS_MAX, Question
from tallystick.store.store import Store


@dataclass
class Range(InputPartition):
    """Positions after `after`, up to `until`."""

    after: int
    until: int


def split(after: int, until: int, *, partition_events: int) -> list[Range]:
    """Ranges of one size that cover (after, until]; none if that is empty."""
    size = max(partition_events, -(-(until - after) // PARTITIONS_MAX))
    return [Range(begin, min(begin + size, until)) for begin in range(after, until, size)]


def plan(store: Store, question: Question) -> list[Range]:
    """The ranges of a question, up to the safe head as it is now. Never none: Spark would make one up."""
    head = store.log.head()
    until = head if question.until is None else min(question.until, head)
    found = split(question.after, until, partition_events=question.partition_events)
    return found or [Range(question.after, question.after)]


def pages(store: Store, question: Question, part: Range) -> Iterator[list[Event]]:
    """The events of a range, page after page."""
    after = part.after
    while after < part.until:
        page = store.log.read(
            after=after,
            until=part.until,
            selection=question.selection,
            limit=BATCH_EVENTS,
            over_holes=question.over_holes,
            over_pruned=question.over_pruned,
        )
        if page.events:
            yield page.events
        assert page.through > after, "a page that does not move on would be read for ever"
        after = page.through
