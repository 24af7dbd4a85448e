"""The state of an open log: its segments, its holes, and what was pruned and erased.

- A writer changes the state under the lock; a reader follows a writer in another process, whose mark it reads.
- Segments and lifecycle are replaced as a whole, the lifecycle first. A question that meets a replaced file is asked
  again.
- A hole is put on record when it is first seen, and stays known until the log is opened again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tallystick import errors
from tallystick.engines.files import lifecycle, mark, opener
from tallystick.engines.files.handles import Renamed
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.reader import SegmentReader
from tallystick.engines.files.segments import Segment, with_generation
from tallystick.engines.tables.process import OwnerProcess
from tallystick.event.model import Event
from tallystick.store.damage import DamageRecord, problem_of, put_on_record
from tallystick.store.page import Hole

T = TypeVar("T")

RENAMES_MAX = 100


class LogView:
    """What is known of an open log. Whatever changes it holds `lock`, which the writer holds while it commits."""

    def __init__(
        self, opened: opener.OpenedLog, *, url: str, readonly: bool, lock: threading.RLock, damage: DamageRecord
    ) -> None:
        self.url = url
        self.readonly = readonly
        self.lock = lock
        self.closed = False
        self.process = OwnerProcess()  # locks that another thread holds at a fork are never free in the child
        self._seen: object = None
        self._damage = damage
        self._adopt(opened)

    def _adopt(self, opened: opener.OpenedLog) -> None:
        for _ in range(RENAMES_MAX):
            try:
                life = lifecycle.merged([_lifecycle(item) for item in opened.segments])
                break
            except (Renamed, FileNotFoundError):
                if opened.lock is not None:
                    raise
                opened = opener.open_for_reading(opened.handles.files, opened.handles.directory)
        else:
            raise self._keep_changing()
        opened.handles.lock, opened.handles.note_hole = self.lock, self.note_hole
        opened.segments[-1].listen(life.apply)
        self.opened = opened
        self.handles = opened.handles
        self.life = life  # before the segments: a reader that sees a control fact finds what it says
        self.reader = SegmentReader(opened.handles, self.note_hole, life)
        self.segments = opened.segments
        self.holes = list(opened.holes)
        if self.holes:
            put_on_record(self._damage, list(map(problem_of, self.holes)))
        for item in self.segments:
            for gap in item.gaps:  # found before this view could note them
                self.note_hole(gap)

    def begin(self, begun: Segment) -> None:
        """Add a new segment after the others."""
        begun.listen(self.life.apply)
        self.segments = self.opened.segments = (*self.segments, begun)

    def replace(self, fresh: Segment, *, absorbed: Collection[bytes] = ()) -> None:
        """Put a new generation in the place of its segment, and of the segments that it took in, by id."""
        with self.lock:
            gone = {fresh.header.segment_id, *absorbed}
            old = [item for item in self.segments if item.header.segment_id in gone]
            self.segments = self.opened.segments = with_generation(self.segments, fresh, absorbed)
            for item in old:
                item.tags.replace()
                self.handles.release(item)
                self.reader.forget(item.identity)

    def note_hole(self, hole: Hole) -> None:
        """Remember a hole, and put it on record, unless it lies in one that is known."""
        if not any(known.first <= hole.first and hole.last <= known.last for known in self.holes):
            self.holes.append(hole)
            put_on_record(self._damage, [problem_of(hole)])

    def lifecycle(self) -> Lifecycle:
        """What was pruned and erased, as of now."""
        self.refresh()
        return self.life

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        """For each event the link of the one before it in its stream."""
        return self.retry_on_swap(lambda: [self.reader.link_before(self.segments, event) for event in events])

    def erased(self, positions: Sequence[int]) -> set[int]:
        """Those of these positions whose erasure is noted."""
        return self.life.erased.intersection(positions)

    def retry_on_swap(self, question: Callable[[], T]) -> T:
        """Ask the question, and ask again if a segment was renamed before it was opened."""
        try:
            for _ in range(RENAMES_MAX):
                try:
                    return question()
                except (Renamed, FileNotFoundError):
                    if self.opened.lock is not None:  # a writer: while it does not seal, its names are right
                        with self.lock:
                            return question()
                    self._look_again()
            raise self._keep_changing()
        except Renamed as problem:
            raise errors.ReadFailed(path=self.url, reason=f"{problem} is another segment now") from problem
        except OSError as problem:
            raise self.read_failed(problem) from problem

    def read_failed(self, problem: OSError) -> errors.ReadFailed:
        """The error for a disk that does not answer."""
        return errors.ReadFailed(path=self.url, reason=str(problem))

    def _keep_changing(self) -> errors.StoreFailed:
        return errors.StoreFailed(operation="open", reason=f"the segments of {self.url} keep changing")

    def close(self) -> None:
        """Close what reading holds open, and release the lock of a writer."""
        self.closed = True
        self.handles.close()
        for item in self.segments:
            if item.base is not None:
                item.base.close()
        if self.opened.lock is not None:
            self.opened.lock.release()

    # --- following -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow a writer in another process: take in what it has synced since."""
        self.process.require()
        if self.closed:
            raise errors.StoreClosed()
        if self.readonly:
            try:
                self._follow(mark.load_whole(self.handles.files, self.handles.directory))
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
                except (Renamed, FileNotFoundError):  # it was sealed, and is no longer open here
                    self._look_again()

    def _follow_without_mark(self) -> None:
        """Look again when the files have changed: without a mark it is not known how far the log is synced."""
        with self.lock:
            now = (self.handles.get(self.segments[-1]).size(), self.handles.files.list(self.handles.directory))
            if now != self._seen:
                self._look_again()
                self._seen = now

    def _extend(self, last: Segment, marked: mark.SegmentMark) -> None:
        file = self.handles.get(last)
        last.end = max(last.end, marked.end)  # before the index grows: what it points at must lie inside the segment
        holes = last.index_all(file, end=marked.end)
        if last.covered_end < marked.end:
            holes.append(Hole(last.next_position, marked.next_position - 1, f"{last.name} is damaged or cut"))
        for hole in holes:
            self.note_hole(hole)
        last.end = last.covered_end

    def _look_again(self) -> None:
        with self.lock:
            self._adopt(opener.open_for_reading(self.handles.files, self.handles.directory))


def _lifecycle(item: Segment) -> Lifecycle:
    """What the frames of a segment did; nothing if it cannot be read, because then every read of it is refused."""
    try:
        return item.lifecycle()
    except errors.Damaged:
        return Lifecycle()
