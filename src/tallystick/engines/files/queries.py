"""The reading half of a file log: events by position, by stream and by id, and what is known of each stream.

An answer is complete and checked, or it is refused. Every event had its frame's SHA-256 compared when it was read; here
its payload and its place in the stream are checked. Where a hole or an accepted loss may hold more of the answer, the
refusal names it. What was pruned or erased while a question was answered is looked at again before the answer leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tallystick.engines.files import side, tag_queries
from tallystick.engines.files.checked_frames import CheckedFrames, FrameEvents
from tallystick.engines.files.frame import Body
from tallystick.engines.files.segments import Segment, index_of_position
from tallystick.engines.files.streams import StreamListing
from tallystick.engines.files.view import LogView
from tallystick.event.model import Event
from tallystick.store import checked, loss
from tallystick.store.damage import KeptDamage
from tallystick.store.events import PAGE_EVENTS
from tallystick.store.facts import is_about_state
from tallystick.store.ledger import Head
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, PrunedEvent, before_cut, kept_of, require_history, require_positions
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.selection import EVERYTHING, Selection

T = TypeVar("T")


class FileQueries:
    """What can be asked of an open file log. A base of `FilesLog`."""

    def __init__(self, view: LogView, damage: KeptDamage) -> None:
        self.damage = damage
        self._view = view
        self._checked = CheckedFrames()
        self._listing = StreamListing(view)
        self._heads: dict[str, Head] = {}  # ends of streams that were written to lately, by the writer

    # --- by position -----------------------------------------------------------------------------------------------

    def head(self) -> int:
        """The last position that is known: a hole at the end counts, so that its beginning is not taken for the end."""
        self._view.refresh()
        return max([self._view.segments[-1].next_position - 1, *(hole.last for hole in self._view.holes)])

    def read(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
        over_pruned: bool = False,
        unchecked: bool = False,
    ) -> Page:
        view, head = self._view, self.head()
        end = head if until is None else min(until, head)
        if after >= end:
            self._require_known_end(after)
            return Page([], after)
        self._require_positions(selection, after=after, over_pruned=over_pruned)
        found = None
        if selection.query is not None and not (over_holes or unchecked):
            found = tag_queries.page(view, selection.query, after=after, end=end, selection=selection, limit=limit)
        page, parts = found or view.retry_on_swap(
            lambda: view.reader.page(
                view.segments, after=after, end=end, selection=selection, limit=limit, over_holes=over_holes
            )
        )
        self._require_positions(selection, after=after, over_pruned=over_pruned)  # it may be pruned by now
        return page if unchecked else self._checked_page(page, parts, after=after, over_holes=over_holes)

    def _require_known_end(self, after: int) -> None:
        """Refuse to say that no event follows this position if it is not known how far the log reached."""
        if self._view.opened.is_open_ended:
            for hole in self._view.holes:
                if hole.last <= after:
                    raise hole.refusal

    def _require_positions(self, selection: Selection, *, after: int, over_pruned: bool) -> None:
        """Refuse a read that begins below a pruned event which it might have selected."""
        life = self._view.life
        if after < life.floor and not over_pruned:
            cuts = {name: life.cuts[name] for name in selection.streams if name in life.cuts}
            require_positions(selection, cuts, life.floor, after=after)

    def _checked_page(self, found: Page, parts: list[FrameEvents], *, after: int, over_holes: bool) -> Page:
        """A page whose payloads have their checksums; those of frames that were checked before are not hashed again."""
        doubtful = self._checked.doubtful(parts)
        kept = checked.hashed_page(
            self.damage, found, self._view, after=after, over_holes=over_holes, doubtful=doubtful
        )
        if kept is found:
            self._checked.note_payloads(parts)
        return kept

    def bodies(self, *, after: int, until: int) -> Iterator[tuple[int, Body | Hole]]:
        """The frames between two positions as they are stored, each with its last position."""
        return self._view.reader.bodies(self._view.segments, after=after, end=until)

    def recorded_at(self, position: int) -> int | None:
        if not 1 <= position <= self.head():
            return None
        return self._view.retry_on_swap(lambda: self._view.reader.recorded(self._view.segments, position))

    # --- by stream -------------------------------------------------------------------------------------------------

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        view = self._view
        require_history(self.cut(stream), after=after)
        parts = view.retry_on_swap(
            lambda: view.reader.stream(view.segments, stream, after=after, until=until, limit=limit)
        )
        found = [event for part in parts for event in part.events]
        require_history(view.life.cuts.get(stream), after=after)  # it may have been pruned meanwhile
        self._require_whole(stream, found, after=after, until=until, limit=limit)
        if parts:
            link = checked.link_before(found[0], view, after=after)
            checked.refuse(self.damage, self._checked.problems(parts, link, view, after=after))
        return found

    def stream_head(self, stream: str) -> Head | None:
        head = self._heads.get(stream)
        if head is not None and not self._view.closed:
            self._view.process.require()
            return head
        self._view.refresh()
        head = self._stored_head(stream)
        self._require_end(stream, head)
        return head

    def _stored_head(self, stream: str) -> Head | None:
        life = self._view.life
        found = life.head(stream, self._newest(lambda item: item.stream_head(stream)))
        if not life.losses:
            return found
        return loss.head_after(life.losses, stream, found, functools.partial(self._position_of, stream))

    def _position_of(self, stream: str, head: Head) -> int:
        """The position of the last event of a stream, pruned or not."""
        view, cut = self._view, self._view.life.cuts.get(stream)
        if cut is not None and head.seq == cut.through:
            return cut.last_position
        parts = view.retry_on_swap(
            lambda: view.reader.stream(view.segments, stream, after=head.seq - 1, until=head.seq, limit=1)
        )
        return parts[-1].events[-1].position

    def _require_end(self, stream: str, head: Head | None) -> None:
        """Refuse if a hole that no index covers may hold more of a stream than this end of it.

        Not so for facts about streams: verification and degraded state use those that are left, and name the hole.
        """
        unknown = [] if is_about_state(stream) else self._unknown_holes()
        if unknown:
            _require_none_after(0 if head is None else self._position_of(stream, head), unknown)

    def _require_whole(self, stream: str, found: Sequence[Event], *, after: int, until: int | None, limit: int) -> None:
        """Refuse what was found of a stream if it ends where a hole or a loss may hold more."""
        if len(found) >= limit:
            return
        view, head = self._view, None
        losses = view.life.losses
        if view.holes or losses:
            head = self._stored_head(stream)
        if view.holes and (head is None or until is None or until > head.seq):
            self._require_end(stream, head)
        cut = view.life.cuts.get(stream)
        reached = found[-1].seq if found else max(after, cut.through if cut is not None else 0)
        is_known = not is_about_state(stream) or any(each.end_of(stream) for each in losses)
        if losses and is_known and (until is None or reached < until):
            loss.require_none_after(losses, found, head=head, reached=reached)

    def _unknown_holes(self) -> list[Hole]:
        """The holes of which no index says what streams and ids are in them."""
        view = self._view
        return [hole for hole in view.holes if not view.retry_on_swap(functools.partial(self._is_indexed, hole))]

    def _is_indexed(self, hole: Hole) -> bool:
        segments = self._view.segments
        return segments[index_of_position(segments, hole.first)].index_covers(hole)

    def _newest(self, question: Callable[[Segment], T | None]) -> T | None:
        """The answer of the newest segment that has one."""
        view = self._view
        return view.retry_on_swap(
            lambda: next((answer for item in reversed(view.segments) if (answer := question(item))), None)
        )

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        return self._listing.page(after, limit)

    # --- by id -----------------------------------------------------------------------------------------------------

    def find(self, id: bytes) -> Event | None:
        view = self._view
        view.refresh()
        found = view.retry_on_swap(lambda: view.reader.find(view.segments, id))
        if found is None:
            _require_none_after(0, self._unknown_holes())
        return checked.event(self.damage, found, view, hashed=True)

    def pruned(self, id: bytes) -> bool:
        view, life = self._view, self._view.lifecycle()
        if not life.cuts and not life.losses:
            return False
        return view.retry_on_swap(lambda: view.reader.pruned(view.segments, id))

    # --- what became of events -------------------------------------------------------------------------------------

    def floor(self) -> int:
        return self._view.lifecycle().floor

    def cut(self, stream: str) -> Cut | None:
        return self._view.lifecycle().cuts.get(stream)

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        cuts = self._view.lifecycle().cuts
        return [cuts[name] for name in sorted(name for name in list(cuts) if name > after)[:limit]]

    def holes(self) -> list[Hole]:
        return list(self._view.holes)

    def losses(self) -> list[Loss]:
        return list(self._view.lifecycle().losses)

    def announced(self) -> int:
        return self._view.life.announced

    def pruned_events(self) -> Iterator[PrunedEvent]:
        """As their frames hold them, or as frames that were written again remember them."""
        floor, reached = self.floor(), 0
        for last, body in self.bodies(after=0, until=floor):
            if not isinstance(body, Hole):
                yield from _pruned_of(body, range(reached + 1, last + 1), self._view.life.cuts)
            reached = last


def _require_none_after(position: int, holes: list[Hole]) -> None:
    for hole in holes:
        if hole.last > position:
            raise hole.refusal


def _pruned_of(body: Body, positions: range, cuts: dict[str, Cut]) -> list[PrunedEvent]:
    """What was pruned of one frame, in order."""
    found = [kept_of(event) for event in body.events if event.seq <= before_cut(cuts.get(event.stream))[0]]
    left_out = side.left_out(positions, (event.position for event in body.events), side.decode(body.side))
    return sorted([*found, *left_out], key=lambda each: each.position)
