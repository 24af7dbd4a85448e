"""Reading frames and events from segments: by position, by stream, by id. Every frame is verified when it is read.

Frames are cached as they were written. What was pruned or erased since is removed from every answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.files import frame as frames
from tallystick.engines.files.checked_frames import FrameEvents
from tallystick.engines.files.frame import Body, Frame
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.scan import Scanner, next_valid_frame, read_frame
from tallystick.engines.files.segments import Segment, Segments, index_of_position
from tallystick.event import limits
from tallystick.event.model import Event
from tallystick.store import loss
from tallystick.store.maintenance import before_cut
from tallystick.store.page import Hole, Page
from tallystick.store.selection import Selection

FRAMES_KEPT_MAX = 16
FRAME_KEPT_BYTES_MAX = 1 << 20


class SegmentReader:
    """Reads from segments that its owner keeps up to date."""

    def __init__(self, handles: Handles, note_hole: Callable[[Hole], None], life: Lifecycle) -> None:
        self._handles = handles
        self._note_hole = note_hole
        self._life = life
        self._kept: OrderedDict[tuple[bytes, int], tuple[Frame, Body]] = OrderedDict()

    # --- by position -----------------------------------------------------------------------------------------------

    def page(
        self, segments: Segments, *, after: int, end: int, selection: Selection, limit: int, over_holes: bool
    ) -> tuple[Page, list[FrameEvents]]:
        """Events with after < position <= end, at most `limit`, and their frames; see the port for holes."""
        losses = self._life.losses
        lost = loss.between(losses, after, end) if losses else []
        if lost and not over_holes:
            end = loss.readable_until(lost, after=after, until=end)
        page, parts = self._page(
            segments, after=after, end=end, selection=selection, limit=limit, over_holes=over_holes
        )
        return (loss.named_in(page, lost) if lost and over_holes else page), parts

    def _page(
        self, segments: Segments, *, after: int, end: int, selection: Selection, limit: int, over_holes: bool
    ) -> tuple[Page, list[FrameEvents]]:
        found: list[Event] = []
        parts: list[FrameEvents] = []
        holes: list[Hole] = []
        wanted = None if selection.is_everything else selection.predicate()
        position = after
        for last, body in self.bodies(segments, after=after, end=end, fresh=over_holes):
            if isinstance(body, Hole):
                if not over_holes:
                    if position > after:
                        return Page(found, position), parts
                    raise body.refusal
                holes.append(body)
                position = max(position, min(body.last, end))
                continue
            events = _between(body.events, after, end)
            if self._life.touched > after:
                events = self._life.visible(events)
            if wanted is not None:
                events = [event for event in events if wanted(event)]
            room = limit - len(found)
            is_full = len(events) >= room
            parts.append(FrameEvents(body, events[:room] if is_full else events))
            found += parts[-1].events
            if is_full:
                return Page(found, found[-1].position, tuple(holes)), parts
            position = min(last, end)
        return Page(found, max(after, end), tuple(holes)), parts

    def bodies(
        self, segments: Segments, *, after: int, end: int, fresh: bool = False
    ) -> Iterator[tuple[int, Body | Hole]]:
        """Bodies with positions after `after` and up to `end`, each with its last position, and holes in their places.

        `fresh`: read from the disk, not from memory. A read over holes has to find the damage that is there now.
        """
        number = index_of_position(segments, after + 1)
        reached = after
        while number < len(segments) and reached < end:
            item = segments[number]
            if item.header.first_position > reached + 1:
                gap = Hole(reached + 1, item.header.first_position - 1, f"the segment before {item.name} is missing")
                yield gap.last, self._note(gap)
            following = segments[number + 1].header.first_position if number + 1 < len(segments) else None
            for last, body in self._segment_bodies(item, after=reached, following=following, fresh=fresh):
                reached = max(reached, last)
                yield last, body
                if reached >= end:
                    return
            number += 1
        if reached < end:
            yield end, self._note(Hole(reached + 1, end, "the end of the log is missing"))

    def _segment_bodies(
        self, item: Segment, *, after: int, following: int | None, fresh: bool = False
    ) -> Iterator[tuple[int, Body | Hole]]:
        first, offset = item.frame_before(after + 1)
        try:
            file, identity, end = self._handles.get(item), item.identity, item.end
        except errors.Damaged as problem:
            if not fresh:
                raise
            last = max((following or item.next_position) - 1, after + 1)
            yield last, self._note(Hole(max(after + 1, item.header.first_position), last, problem.values["reason"]))
            return
        position = first
        while offset < end:
            kept = None if fresh else self._kept.get((identity, offset))
            if kept is not None:
                frame, body = kept
                offset, position = frame.end, frame.next_position
                if frame.next_position > after + 1:
                    yield frame.next_position - 1, body
                continue
            scanner = Scanner(file, identity, offset=offset, end=end, position=position)
            for frame, data in scanner:
                if frame.next_position > after + 1:
                    body = self._keep(identity, frame, data)
                    yield frame.next_position - 1, body
            offset, position = scanner.offset, scanner.position or position
            if scanner.clean:
                break
            found = next_valid_frame(file, identity, begin=offset + 1, end=end, position=position)
            last = (found.first_position if found else following or max(position + 1, item.next_position)) - 1
            if last >= position and last > after:
                reason = f"{item.name} is damaged at byte {offset}"
                yield last, self._note(Hole(position, last, reason))
            if found is None:
                return
            offset, position = found.offset, found.first_position
        if following is not None and position < following and position > after:
            yield following - 1, self._note(Hole(position, following - 1, f"{item.name} is shorter than it was"))

    def _note(self, hole: Hole) -> Hole:
        self._note_hole(hole)
        return hole

    def _keep(self, identity: bytes, frame: Frame, data: bytes) -> Body:
        body = msgspec.structs.replace(frames.decode_body(frame, data), digest=frame.digest)
        if len(data) <= FRAME_KEPT_BYTES_MAX:
            self._kept[(identity, frame.offset)] = (frame, body)
            while len(self._kept) > FRAMES_KEPT_MAX:
                try:
                    self._kept.popitem(last=False)
                except KeyError:  # another thread was faster
                    break
        return body

    def raw_at(self, item: Segment, position: int) -> Event | None:
        """The event at a position of a segment as its frame holds it, erased or not; None if it is not there."""
        for _, body in self._segment_bodies(item, after=position - 1, following=None):
            if isinstance(body, Hole):
                return None
            return next((event for event in body.events if event.position == position), None)
        return None

    def recorded(self, segments: Segments, position: int) -> int | None:
        """When the frame that holds a position was written."""
        for _, body in self.bodies(segments, after=position - 1, end=position):
            if isinstance(body, Hole):
                return None
            is_left = position > self._life.floor or self._life.visible(_between(body.events, position - 1, position))
            return body.recorded if is_left else None
        return None

    def forget(self, identity: bytes) -> None:
        """Forget the frames of a generation that was replaced: they may hold what was erased."""
        for key in [key for key in list(self._kept) if key[0] == identity]:
            self._kept.pop(key, None)

    def forget_all(self) -> None:
        """Forget every frame: what is read next comes from the disk."""
        self._kept.clear()

    # --- by offset -------------------------------------------------------------------------------------------------

    def body_at(self, item: Segment, offset: int) -> Body:
        """The body of the frame that an index points at; `Damaged` if it is no longer valid."""
        identity = item.identity
        kept = self._kept.get((identity, offset))
        if kept is not None:
            return kept[1]
        return self._keep(identity, *self._frame_at(item, offset))

    def side_at(self, item: Segment, offset: int) -> list[Any]:
        """The side records of a frame; its events are verified with them, but not decoded."""
        kept = self._kept.get((item.identity, offset))
        return kept[1].side if kept is not None else frames.decode_side(*self._frame_at(item, offset))

    def _frame_at(self, item: Segment, offset: int) -> tuple[Frame, bytes]:
        found = read_frame(self._handles.get(item), item.identity, offset, item.end)
        if found is None:
            raise self._note(self._hole_at(item, offset)).refusal
        return found

    def _hole_at(self, item: Segment, offset: int) -> Hole:
        """The hole around an offset, found by a scan of the segment, because the index cannot be trusted there."""
        file, identity = self._handles.get(item), item.identity
        at, position = item.header.size, item.header.first_position
        while True:
            scanner = Scanner(file, identity, offset=at, end=item.end, position=position)
            for _ in scanner:
                pass
            position = scanner.position or position
            found = next_valid_frame(file, identity, begin=scanner.offset + 1, end=item.end, position=position)
            if found is None or found.offset > offset:
                last = (found.first_position if found else item.next_position) - 1
                return Hole(position, max(last, position), f"{item.name} is damaged at byte {scanner.offset}")
            at, position = found.offset, found.first_position

    def find(self, segments: Segments, id_: bytes) -> Event | None:
        """The event with this id."""
        event = self._recorded(segments, id_)
        return next(iter(self._life.visible([event])), None) if event is not None else None

    def pruned(self, segments: Segments, id_: bytes) -> bool:
        """Whether an event of this id was recorded and pruned since, whether its bytes are still there or not."""
        if any(item.is_gone(id_) for item in reversed(segments)):
            return True
        event = self._recorded(segments, id_)
        return event is not None and not self._life.visible([event])

    def _recorded(self, segments: Segments, id_: bytes) -> Event | None:
        for item in reversed(segments):
            offset = item.find(id_)
            if offset is not None:
                return self._event_at(item, offset, id_)
        return None

    def _event_at(self, item: Segment, offset: int, id_: bytes) -> Event | None:
        """One event of a frame. The others are verified with it, but not decoded."""
        kept = self._kept.get((item.identity, offset))
        if kept is not None:
            return next((event for event in kept[1].events if event.id == id_), None)
        found = frames.decode_events_with(*self._frame_at(item, offset), id_)
        return next((event for event in found if event.id == id_), None)

    def stream(
        self, segments: Segments, stream: str, *, after: int, until: int | None, limit: int
    ) -> list[FrameEvents]:
        """Events of one stream by seq, frame by frame. A gap between them is refused: a segment is missing there."""
        raw = self._stream(segments, stream, after=after, until=until, limit=limit)
        parts = [FrameEvents(part.body, events) for part in raw if (events := self._life.visible(part.events))]
        found = events_of(parts)
        begin = max(after, before_cut(self._life.cuts.get(stream))[0])
        if found and found[-1].seq != begin + len(found):
            at = next(number for number, event in enumerate(found) if event.seq != begin + number + 1)
            first, last = found[at - 1].position + 1 if at else 1, found[at].position - 1
            if lost := loss.between(self._life.losses, first - 1, last):
                raise lost[-1].refusal
            raise errors.Damaged(first=first, last=last, reason=f"seq {begin + at + 1} of {stream!r} is missing")
        return parts

    def link_before(self, segments: Segments, event: Event) -> bytes | None:
        """The link that an event follows; None if the event before it cannot be read."""
        seq, link = before_cut(self._life.cuts.get(event.stream))
        if seq == event.seq - 1:
            return link
        try:
            parts = self._stream(segments, event.stream, after=event.seq - 2, until=event.seq - 1, limit=1)
        except errors.Damaged:
            return None
        return parts[0].events[0].link if parts else None

    def _stream(
        self, segments: Segments, stream: str, *, after: int, until: int | None, limit: int
    ) -> list[FrameEvents]:
        parts: list[FrameEvents] = []
        end = limits.INT_MAX if until is None else until
        for item in segments:
            entry = item.stream(stream)
            if entry is None or entry.head.seq <= after:
                continue
            for offset in entry.offsets(after=after, until=until):
                body = self.body_at(item, offset)
                events = [event for event in body.events if event.stream == stream and after < event.seq <= end]
                if events:
                    parts.append(FrameEvents(body, events[:limit]))
                    limit -= len(events)
                    if limit <= 0:
                        return parts
        return parts


def events_of(parts: Iterable[FrameEvents]) -> list[Event]:
    """The events of some parts of frames, in their order."""
    return [event for part in parts for event in part.events]


def _between(events: list[Event], after: int, end: int) -> list[Event]:
    """The events with after < position <= end of an ascending list."""
    if not events or (events[0].position > after and events[-1].position <= end):
        return events
    return [event for event in events if after < event.position <= end]
