"""Which events match a query: for conditions of appends, and for consultations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tallystick.engines.files import side
from tallystick.engines.files.reader import SegmentReader
from tallystick.engines.files.segments import Segments
from tallystick.store import consult
from tallystick.store.maintenance import kept_of
from tallystick.store.page import Hole
from tallystick.store.query import Condition


def matches(reader: SegmentReader, segments: Segments, condition: Condition, *, limit: int) -> list[int]:
    """The positions past `condition.after` whose events match, the first `limit`. Pruned and erased ones count."""
    return list(itertools.islice(_scanned(reader, segments, condition, end=segments[-1].next_position - 1), limit))


def _scanned(reader: SegmentReader, segments: Segments, condition: Condition, *, end: int) -> Iterator[int]:
    """The same, by reading every frame."""
    reached = condition.after
    for last, body in reader.bodies(segments, after=reached, end=end):
        if isinstance(body, Hole):
            raise body.refusal
        present = [event.position for event in body.events]
        gone = side.left_out(range(reached + 1, last + 1), present, side.decode(body.side))
        found = [*map(kept_of, body.events), *gone]
        yield from sorted(each.position for each in found if consult.may_match(condition, each))
        reached = last
