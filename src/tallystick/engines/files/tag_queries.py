"""Which events match a query: for conditions of appends, and for reads that select by types and tags.

Items with tags are answered by the tags of each segment, without reading an event. Items without tags are answered by
the table of types, which says between which positions each type is. Where that cannot decide, frames are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from tallystick import errors
from tallystick.engines.files import side
from tallystick.engines.files.checked_frames import FrameEvents
from tallystick.engines.files.index_file import BadIndex
from tallystick.engines.files.segments import Segment, index_of_position
from tallystick.engines.files.tag_index import Place, TagPart, places_of, untagged_ranges
from tallystick.engines.files.view import LogView
from tallystick.event.model import Event
from tallystick.store import consult
from tallystick.store.loss import Loss
from tallystick.store.maintenance import kept_of
from tallystick.store.page import Hole, Page
from tallystick.store.query import Condition, Query
from tallystick.store.selection import Selection

Range: TypeAlias = tuple[int, int]
"""Positions with after < position <= until, of which the frames have to be read."""


def matches(view: LogView, condition: Condition, *, limit: int) -> list[int]:
    """The positions past `condition.after` whose events match, the first `limit`. Pruned and erased ones count.

    Refused if an event that cannot be read might match.
    """
    for hole in _missing(view):
        if hole.last > condition.after:
            raise hole.refusal
    return view.retry_on_swap(lambda: _matches(view, condition, limit))


def _missing(view: LogView) -> list[Hole | Loss]:
    return [*view.holes, *view.life.losses]


def _matches(view: LogView, condition: Condition, limit: int) -> list[int]:
    found: list[int] = []
    segments = view.segments
    for item in segments[index_of_position(segments, condition.after + 1) :]:
        for known in item.tags.ask(partial(_known_in, condition, limit - len(found))):
            if isinstance(known, tuple):
                after, until = known
                found += itertools.islice(_scan(view, condition, after, until), limit - len(found))
            else:
                found += known
            if len(found) >= limit:
                return found[:limit]
    return found


def _known_in(condition: Condition, limit: int, parts: list[TagPart]) -> list[list[int] | Range]:
    return [_known(part, condition, limit) for part in parts]


def _known(part: TagPart, condition: Condition, limit: int) -> list[int] | Range:
    """The first positions of a part that match, or the range in which they must be looked for."""
    query, after, org = condition.query, condition.after, condition.org
    untagged = untagged_ranges(part, query, after=after)
    firsts = [first for first, _ in untagged if first > after]
    if untagged and (limit > 1 or org is not None or len(firsts) < len(untagged)):
        return max(after, part.begin_position - 1), part.next_position - 1
    tagged = itertools.groupby(place.position for place in places_of(part, query, after=after, org=org))
    found = [position for position, _ in itertools.islice(tagged, limit)]
    return sorted({*found, min(firsts)} if firsts else found)


def _scan(view: LogView, condition: Condition, after: int, until: int) -> Iterator[int]:
    """The positions in a range that match, found by reading every frame in it."""
    reached = after
    for last, body in view.reader.bodies(view.segments, after=after, end=until):
        if isinstance(body, Hole):
            raise body.refusal
        gone = side.left_out(
            range(reached + 1, last + 1), (event.position for event in body.events), side.decode(body.side)
        )
        found = [*map(kept_of, body.events), *gone]
        yield from sorted(each.position for each in found if consult.may_match(condition, each))
        reached = last


# --- pages ---------------------------------------------------------------------------------------------------------


def page(
    view: LogView, query: Query, *, after: int, end: int, selection: Selection, limit: int
) -> tuple[Page, list[FrameEvents]] | None:
    """Events with after < position <= end that are selected, and their frames, as `SegmentReader.page` returns them.

    None if damage or a loss is in the way: then reading every frame says where.
    """
    if any(hole.last > after for hole in _missing(view)):
        return None
    try:
        return view.retry_on_swap(lambda: _page(view, query, after, end, selection, limit))
    except (BadIndex, errors.Damaged):
        return None


def _page(
    view: LogView, query: Query, after: int, end: int, selection: Selection, limit: int
) -> tuple[Page, list[FrameEvents]]:
    found: list[Event] = []
    parts: list[FrameEvents] = []
    segments, reached = view.segments, after
    wanted = selection.predicate()
    number = index_of_position(segments, after + 1)
    while reached < end and number < len(segments):
        item, room = segments[number], limit - len(found)
        last = min(end, segments[number + 1].header.first_position - 1) if number + 1 < len(segments) else end
        places = _places(item, query, after=reached, until=last, org=selection.org, limit=room)
        if places is None:  # the events of this segment have to be looked at
            some, more = view.reader.page(
                segments, after=reached, end=last, selection=selection, limit=room, over_holes=False
            )
            reached = some.through
        else:
            more = list(_frames(view, item, places, wanted))
            reached = places[-1].position if len(places) == room else last
        parts += more
        found += [event for part in more for event in part.events]
        if len(found) == limit:
            return Page(found, found[-1].position), parts
        number += reached >= last
    return Page(found, max(after, end)), parts


def _places(item: Segment, query: Query, *, after: int, until: int, org: str | None, limit: int) -> list[Place] | None:
    """The first places of a segment that match; None if events have to be read to decide that."""

    def question(parts: list[TagPart]) -> list[Place] | None:
        if any(first <= until for part in parts for first, _ in untagged_ranges(part, query, after=after)):
            return None
        runs = (places_of(part, query, after=after, org=org) for part in parts)
        inside = itertools.takewhile(lambda place: place.position <= until, itertools.chain.from_iterable(runs))
        return [next(same) for _, same in itertools.islice(itertools.groupby(inside), limit)]

    return item.tags.ask(question)


def _frames(
    view: LogView, item: Segment, places: list[Place], wanted: Callable[[Event], bool]
) -> Iterator[FrameEvents]:
    """The frames with these events, as far as they are left and wanted."""
    for offset, same in itertools.groupby(places, key=lambda place: place.offset):
        if not offset:
            continue
        positions = {place.position for place in same}
        body = view.reader.body_at(item, offset)
        events = [event for event in body.events if event.position in positions]
        if len(events) < len(positions):
            raise BadIndex(f"the frame at byte {offset} does not have its events")
        if events := [event for event in view.life.visible(events) if wanted(event)]:
            yield FrameEvents(body, events)
