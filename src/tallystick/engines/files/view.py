"""What an open log sees: segments, holes, what was pruned and erased. A reader follows the writer elsewhere."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from tallystick import errors
from tallystick.engines.files import check, lifecycle, mark, opener
from tallystick.engines.files.checked_frames import CheckedFrames, FrameEvents
from tallystick.engines.files.handles import Renamed
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.reader import SegmentReader
from tallystick.engines.files.segments import Segment, index_of_position, with_generation
from tallystick.engines.tables.process import OwnerProcess
from tallystick.event.model import Event
from tallystick.store import checked, loss
from tallystick.store.damage import DamageRecord, problem_of, put_on_record
from tallystick.store.events import Problem
from tallystick.store.facts import is_about_state
from tallystick.store.ledger import Head
from tallystick.store.maintenance import require_positions
from tallystick.store.page import Hole, Page
from tallystick.store.selection import Selection

T = TypeVar("T")

RENAMES_MAX = 100


class LogView:
    """The state of an open log for everyone who asks it. What changes it holds `lock`, which is the writer's too."""

    def __init__(
        self, opened: opener.OpenedLog, *, url: str, readonly: bool, lock: threading.RLock, damage: DamageRecord
    ) -> None:
        self.url = url
        self.readonly = readonly
        self.lock = lock
        self.closed = False
        self._proven = CheckedFrames()
        self.birthplace = OwnerProcess()  # locks that another thread holds at a fork are never free in the child
        self._seen: object = None
        self._damage = damage
        self._adopt(opened)

    def _adopt(self, opened: opener.OpenedLog) -> None:
        for _ in range(RENAMES_MAX):
            try:
                life = lifecycle.merged(map(_lifecycle, opened.segments))
                break
            except (Renamed, FileNotFoundError):
                if opened.lock is not None:
                    raise
                opened = opener.open_for_reading(opened.handles.files, opened.handles.directory)
        else:
            raise self._keep_changing()
        opened.handles.lock, opened.handles.note_hole = self.lock, self.note_hole
        opened.segments[-1].listen(life.take)
        self.opened = opened
        self.life = life  # before the segments: whoever sees a control fact finds what it says
        self.reader = SegmentReader(opened.handles, self.note_hole, life)
        self.segments = opened.segments
        self.holes = list(opened.holes)
        put_on_record(self._damage, list(map(problem_of, self.holes)))
        for item in self.segments:
            for gap in item.gaps:  # found before anybody was there to be told
                self.note_hole(gap)

    def begin(self, begun: Segment) -> None:
        """Go on with a new segment behind the others."""
        begun.listen(self.life.take)
        self.segments = self.opened.segments = (*self.segments, begun)

    def replace(self, fresh: Segment, *, absorbed: Collection[bytes] = ()) -> None:
        """Go on with a new generation of a segment in its place, and in that of the segments that it took in, by id."""
        with self.lock:
            gone = {fresh.header.segment_id, *absorbed}
            old = [item for item in self.segments if item.header.segment_id in gone]
            self.segments = self.opened.segments = with_generation(self.segments, fresh, absorbed)
            for item in old:
                self.opened.handles.release(item)
                self.reader.forget(item.identity)

    def note_hole(self, hole: Hole) -> None:
        """Remember a hole, and put it on record, unless it lies in one that is known."""
        if not any(known.first <= hole.first and hole.last <= known.last for known in self.holes):
            self.holes.append(hole)
            put_on_record(self._damage, [problem_of(hole)])

    # --- questions -------------------------------------------------------------------------------------------------

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream, pruned or not."""
        found = self.life.head(stream, self.search(lambda item: item.stream_head(stream)))
        if not self.life.losses:
            return found
        return loss.head_after(self.life.losses, stream, found, functools.partial(self._position_of, stream))

    def require_end(self, stream: str, head: Head | None) -> None:
        """Refuse if a hole of which no index knows may hold more of a stream than this end of it.

        Not so for facts about streams: verification and degraded state go by those that are left, and name the hole.
        """
        unknown = [] if is_about_state(stream) else self._unknown_holes()
        if not unknown:
            return
        _require_none_after(0 if head is None else self._position_of(stream, head), unknown)

    def _position_of(self, stream: str, head: Head) -> int:
        """The position of the last event of a stream, pruned or not."""
        cut = self.life.cuts.get(stream)
        if cut is not None and head.seq == cut.through:
            return cut.last_position
        ask = functools.partial(self.reader.stream, stream=stream, after=head.seq - 1, until=head.seq, limit=1)
        return self.retry_on_swap(lambda: ask(self.segments))[-1].events[-1].position

    def require_whole(self, stream: str, found: Sequence[Event], *, after: int, until: int | None, limit: int) -> None:
        """Refuse what was found of a stream if it stops where a hole or a loss may hold more."""
        if len(found) >= limit:
            return
        losses, head = self.life.losses, None
        if self.holes or losses:
            head = self.stream_head(stream)
        if self.holes and (head is None or until is None or until > head.seq):
            self.require_end(stream, head)
        cut = self.life.cuts.get(stream)
        reached = found[-1].seq if found else max(after, cut.through if cut is not None else 0)
        is_known = not is_about_state(stream) or any(each.end_of(stream) for each in losses)
        if losses and is_known and (until is None or reached < until):
            loss.require_none_after(losses, found, head=head, reached=reached)

    def require_no_hole(self) -> None:
        """Refuse to write to a log that has lost something."""
        for hole in self.holes:
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)

    def require_known_end(self, after: int) -> None:
        """Refuse to say that nothing stands after this position if it is not known how far the log reached."""
        if self.opened.is_open_ended:
            for hole in self.holes:
                if hole.last <= after:
                    raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)

    def require_all_indexed(self) -> None:
        """Refuse if there is a hole of which no index knows what it held."""
        _require_none_after(0, self._unknown_holes())

    def _unknown_holes(self) -> list[Hole]:
        return [hole for hole in self.holes if not self.retry_on_swap(functools.partial(self._is_indexed, hole))]

    def _is_indexed(self, hole: Hole) -> bool:
        return self.segments[index_of_position(self.segments, hole.first)].index_covers(hole)

    def lifecycle(self) -> Lifecycle:
        """What was pruned and erased, as of now."""
        self.refresh()
        return self.life

    def require_positions(self, selection: Selection, *, after: int, over_pruned: bool) -> None:
        """Refuse a read that begins below a pruned event which it might have selected."""
        life = self.life
        if after < life.floor and not over_pruned:
            cuts = {name: life.cuts[name] for name in selection.streams if name in life.cuts}
            require_positions(selection, cuts, life.floor, after=after)

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        """For each event the link of the one before it in its stream."""
        return self.retry_on_swap(lambda: [self.reader.link_before(self.segments, event) for event in events])

    def erased(self, positions: Sequence[int]) -> set[int]:
        """Those of these positions whose erasure is noted."""
        return self.life.erased.intersection(positions)

    def checked_page(self, found: Page, parts: list[FrameEvents], *, after: int, over_holes: bool) -> Page:
        """A page whose payloads have their checksums; those of frames that were checked before are not hashed again."""
        doubtful = self._proven.doubtful(parts)
        kept = checked.hashed_page(self._damage, found, self, after=after, over_holes=over_holes, doubtful=doubtful)
        if kept is found:
            self._proven.note_payloads(parts)
        return kept

    def require_sound(self, parts: list[FrameEvents], *, after: int) -> None:
        """Refuse events of one stream behind the seq `after` if one of them does not hold."""
        if parts:
            link = checked.link_before(parts[0].events[0], self, after=after)
            checked.refuse(self._damage, self._proven.problems(parts, link, self, after=after))

    def search(self, question: Callable[[Segment], T | None]) -> T | None:
        """The answer of the newest segment that has one."""
        return self.retry_on_swap(
            lambda: next((answer for item in reversed(self.segments) if (answer := question(item))), None)
        )

    def retry_on_swap(self, question: Callable[[], T]) -> T:
        """Ask again when a segment was renamed between looking and opening."""
        try:
            for _ in range(RENAMES_MAX):
                try:
                    return question()
                except (Renamed, FileNotFoundError):
                    if self.opened.lock is not None:  # this is the writer: when it is not sealing, its names are right
                        with self.lock:
                            return question()
                    self._look_again()
            raise self._keep_changing()
        except Renamed as problem:
            raise errors.ReadFailed(path=self.url, reason=f"{problem} is another segment now") from problem
        except OSError as problem:
            raise self.read_failed(problem) from problem

    def read_failed(self, problem: OSError) -> errors.ReadFailed:
        """What a caller is told when the disk does not answer."""
        return errors.ReadFailed(path=self.url, reason=str(problem))

    def _keep_changing(self) -> errors.StoreFailed:
        return errors.StoreFailed(operation="open", reason=f"the segments of {self.url} keep changing")

    def facts(self, *, writing: bool) -> dict[str, Any]:
        """Figures for the operator."""
        opened = self.opened
        return self.retry_on_swap(
            lambda: check.facts(self.segments, opened.handles, writing=writing, unknown=opened.unknown)
        )

    # --- verification ----------------------------------------------------------------------------------------------

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        """What is wrong with the segments and indexes as they are on the disk; nothing in memory answers for them."""
        self.reader.forget_all()
        self.opened.handles.release_all()
        for item in self.segments:
            try:
                yield from self.retry_on_swap(functools.partial(self._segment_problems, item.header.segment_id))
            except errors.ReadFailed:
                if self.opened.handles.files.exists(f"{self.opened.handles.directory}/{item.name}"):
                    raise
                first, reason = item.header.first_position, f"{item.name} is missing"
                self.note_hole(Hole(first, max(item.next_position - 1, first), reason))
            progress(item.next_position - 1)
        yield from self.retry_on_swap(lambda: list(check.repeated_ids(self.segments)))

    def _segment_problems(self, segment_id: bytes) -> list[Problem]:
        items = self.segments
        number = next((at for at, item in enumerate(items) if item.header.segment_id == segment_id), None)
        if number is None:
            return []
        following = items[number + 1].header.first_position if number + 1 < len(items) else None
        return check.segment_problems(items[number], self.opened.handles, following)

    def close(self) -> None:
        """Give back what reading holds open, and the lock of a writer."""
        self.closed = True
        self.opened.handles.close()
        for item in self.segments:
            if item.base is not None:
                item.base.close()
        if self.opened.lock is not None:
            self.opened.lock.release()

    # --- following -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow a writer in another process: take in what it has synced since."""
        self.birthplace.require()
        if self.closed:
            raise errors.StoreClosed()
        if self.readonly:
            try:
                self._follow(mark.load_whole(self.opened.handles.files, self.opened.handles.directory))
            except OSError as problem:
                raise self.read_failed(problem) from problem

    def _follow(self, marked: mark.SegmentMark | None) -> None:
        last = self.segments[-1]
        if marked is None:
            self._follow_without_mark()
            return
        if marked.segment_id == last.header.segment_id and marked.end <= last.end:
            return
        with self.lock:
            last = self.segments[-1]
            if marked.segment_id != last.header.segment_id:
                self._look_again()
            elif last.header.ending is None:
                try:
                    self._extend(last, marked)
                except (Renamed, FileNotFoundError):  # it was sealed, and is not open here any more
                    self._look_again()

    def _follow_without_mark(self) -> None:
        """Look again when the files are not what they were: nobody says how far the log is synced."""
        with self.lock:
            handles = self.opened.handles
            now = (handles.get(self.segments[-1]).size(), handles.files.list(handles.directory))
            if now != self._seen:
                self._look_again()
                self._seen = now

    def _extend(self, last: Segment, marked: mark.SegmentMark) -> None:
        file = self.opened.handles.get(last)
        last.end = max(last.end, marked.end)  # before the index grows: what it points at must lie inside the segment
        holes = last.index_all(file, end=marked.end)
        if last.covered_end < marked.end:
            holes.append(Hole(last.next_position, marked.next_position - 1, f"{last.name} is damaged or cut"))
        for hole in holes:
            self.note_hole(hole)
        last.end = last.covered_end

    def _look_again(self) -> None:
        with self.lock:
            self._adopt(opener.open_for_reading(self.opened.handles.files, self.opened.handles.directory))


def _require_none_after(position: int, holes: list[Hole]) -> None:
    for hole in holes:
        if hole.last > position:
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)


def _lifecycle(item: Segment) -> Lifecycle:
    """What a segment says; nothing if it cannot be read, which reading it will name."""
    try:
        return item.lifecycle()
    except errors.Damaged:
        return Lifecycle()
