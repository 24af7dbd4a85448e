"""Compaction: which sealed segments are rewritten, and why.

- An erased payload must be gone from every file of the store: at once, or at the next opening if that was interrupted.
  A rewritten segment knows how many of its positions were erased when it was written; if more are, it is due.
- Pruned events are left out when they are a fifth of the segment, or when it is rewritten anyway.
- A segment that was sealed before a given time is compressed.
- Small neighbouring segments whose positions are all below the floor are joined.
- A copy of a segment, or an older generation of it, is moved to quarantine.

Everything else that may hold an erased payload comes before its segment: copies, quarantine, responses of forgotten
commands. The segment says that work is left, so it is rewritten last.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.files import joined_segments, quarantine, segment, side
from tallystick.engines.files.commands import FileCommands
from tallystick.engines.files.rewrite import InUse, Rewriter, Unreadable, encoding_of
from tallystick.engines.files.segments import Segment, Segments
from tallystick.engines.files.view import LogView
from tallystick.event.model import Event
from tallystick.store.commit import Transaction
from tallystick.store.events import Problem
from tallystick.store.filesystem import size_of
from tallystick.store.idempotency import CommandKey
from tallystick.store.maintenance import Cut, Reclaimed, before_cut

PRUNED_SHARE = 0.2


class KeepPlan(msgspec.Struct):
    """What a rewriting keeps, as of one moment: cuts by stream, and erased positions, ascending."""

    cuts: dict[str, Cut]
    erased: list[int]

    def erased_in(self, item: Segment) -> list[int]:
        """The erased positions of a segment."""
        begin = bisect.bisect_left(self.erased, item.header.first_position)
        return self.erased[begin : bisect.bisect_left(self.erased, item.next_position)]

    def is_unfinished(self, item: Segment) -> bool:
        """Whether payloads of this segment were erased since it was written."""
        done = item.header.ending.erased if item.header.ending is not None else 0
        return len(self.erased_in(item)) > done

    def pruned_in(self, item: Segment) -> int:
        """How many events of a segment were pruned and are still in it."""
        count = 0
        for cut in self.cuts.values():
            if cut.last_position < item.header.first_position or cut.first_position >= item.next_position:
                continue
            entry = item.stream(cut.stream)
            if entry is not None:
                count += max(min(cut.through, entry.head.seq) - entry.first_seq + 1, 0)
        return count

    def is_worthwhile(self, item: Segment) -> bool:
        """Whether enough of a segment was pruned to rewrite it for that reason only."""
        pruned = self.pruned_in(item)
        return pruned > 0 and pruned >= PRUNED_SHARE * (item.next_position - item.header.first_position)


class SegmentFilter:
    """What is kept of one segment."""

    def __init__(self, item: Segment, plan: KeepPlan, commands: FileCommands) -> None:
        self._item = item
        self._cuts = plan.cuts
        self._erased = frozenset(plan.erased_in(item))
        self._commands = commands

    def event(self, event: Event) -> Event | None:
        if self._cuts and event.seq <= before_cut(self._cuts.get(event.stream))[0]:
            return None
        if event.position in self._erased:
            return msgspec.structs.replace(event, payload=None)
        return event

    def record(self, record: Any, offset: int) -> bool:
        if record[0] != "command":
            return True
        key = msgspec.convert(record[1], CommandKey)
        return self._commands.is_held(side.digest(key), self._item, offset)


class Reclaimer:
    """Rewrites the segments of an open log, one at a time, while it is read and written to.

    `seal` seals the current segment, or returns False if that has to wait. A failure leaves the log as it was, and a
    later call does the work.
    """

    def __init__(
        self, view: LogView, commands: FileCommands, *, seal: Callable[[], bool], clock: Callable[[], int]
    ) -> None:
        self._view = view
        self._commands = commands
        self._seal = seal
        self._clock = clock
        self.lock = threading.RLock()  # one rewriting at a time; taken before the lock of the log
        self.is_ending = False  # the log is being closed: no further segment is begun
        self._left_over = ""  # why an erased payload is still on disk

    # --- what is asked for -----------------------------------------------------------------------------------------

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        """Everything that is worthwhile."""
        with self.lock:
            try:
                before = self._bytes()
                done = self._reclaim(compress_before, progress)
                return Reclaimed(tuple(done), before, self._bytes())
            except OSError as problem:
                raise self._view.read_failed(problem) from problem

    def _reclaim(self, compress_before: int | None, progress: Callable[[int], None]) -> list[str]:
        done = self._remove_absorbed() + self._move_superfluous() + self._erase()
        done += self._seal_if(self._keep_plan().is_worthwhile)
        for item in self._sealed():
            if self.is_ending:
                break
            done += self._reclaim_one(item, compress_before)
            progress(item.next_position - 1)
        return done + self._join()

    def compress(self, is_due: Callable[[Segment], bool]) -> list[str]:
        """Compress the sealed segments that are due; returns what was not done, and why."""
        with self.lock:
            missed: list[str] = []
            for item in filter(is_due, self._sealed()):
                if self.is_ending:
                    break
                done = self._rewrite(item, self._keep_plan(), "compressed", encoding=segment.GZIP)
                missed += done if any(left is item for left in self._view.segments) else []
            return missed

    def finish_erasures(self) -> list[str]:
        """Remove the payloads of erased events from the disk; returns what was done. What fails is done later."""
        with self.lock:
            try:
                done = self._remove_absorbed()
                done += self._move_superfluous() if self._keep_plan().erased else []
                return done + self._erase()
            except (errors.TallyError, OSError) as problem:
                self._left_over = f"the payload of an erased event is still on disk: {problem}"
                return []

    def problems(self) -> list[Problem]:
        """Work that could not be done yet, and must be done."""
        return [Problem("erasure", self._left_over)] if self._left_over else []

    # --- erasures --------------------------------------------------------------------------------------------------

    def _erase(self) -> list[str]:
        plan = self._keep_plan()
        if not plan.erased:
            return []
        unfinished = [item for item in self._view.segments if plan.is_unfinished(item)]
        done: list[str] = []
        if unfinished:
            events = [event for item in unfinished for event in self._raw(item, plan.erased_in(item))]
            responding = [item for item in self._responding(events) if item not in unfinished]
            done += self._seal_if(lambda item: item in unfinished or item in responding)
            done += self._blank_quarantine(events, plan)
            for item in filter(self._sealed().__contains__, (*responding, *unfinished)):
                done += self._rewrite(item, plan, "without what was erased", encoding=encoding_of(item.header))
        self._left_over = ""
        plan = self._keep_plan()
        held = [f"{name} is held open by a reader" for name in self._view.opened.absorbed if plan.erased]
        if held or any(plan.is_unfinished(item) for item in self._view.segments):
            self._left_over = "the payload of an erased event is still on disk: " + "; ".join([*done, *held])
        return done

    def _blank_quarantine(self, events: list[Event], plan: KeepPlan) -> list[str]:
        handles = self._view.handles
        return quarantine.blank(handles.files, handles.directory, events, plan.erased)

    def _raw(self, item: Segment, positions: Iterable[int]) -> list[Event]:
        """The erased events of a segment that still have their payloads there."""
        found: list[Event] = []
        for position in positions:
            raw = self._view.reader.raw_at(item, position)
            if raw is not None and raw.payload is not None:
                found.append(raw)
        return found

    def _responding(self, events: list[Event]) -> list[Segment]:
        """The segments that hold an outdated response about one of these events, in another frame than the event."""
        places = [(event.stream, event.seq) for event in events]
        return [
            item
            for item in self._view.segments
            if any(
                stream == name and first <= seq <= last and self._commands.is_outdated(item, offset)
                for name, first, last, offset in item.far_ranges()
                for stream, seq in places
            )
        ]

    # --- one segment -----------------------------------------------------------------------------------------------

    def _reclaim_one(self, item: Segment, compress_before: int | None) -> list[str]:
        plan = self._keep_plan()
        compress = encoding_of(item.header) == segment.PLAIN and self._is_older(item, compress_before)
        if compress:
            return self._rewrite(item, plan, "compressed", encoding=segment.GZIP)
        if plan.is_worthwhile(item):
            return self._rewrite(item, plan, "without what was pruned", encoding=encoding_of(item.header))
        return []

    def _is_older(self, item: Segment, compress_before: int | None) -> bool:
        """Whether a segment was sealed before a time: the next one was begun then."""
        items = self._view.segments
        number = items.index(item) + 1
        return compress_before is not None and number < len(items) and items[number].header.created < compress_before

    def _rewrite(self, item: Segment, plan: KeepPlan, how: str, *, encoding: int) -> list[str]:
        rewriter = Rewriter(self._view.handles, placed=self._view.replace)
        before, erased = self._size(item.name), len(plan.erased_in(item))
        try:
            keep = SegmentFilter(item, plan, self._commands)
            fresh = rewriter.rewrite(item, keep, encoding=encoding, erased=erased)
        except InUse:
            return [f"{item.name} is held open by a reader; it is rewritten {how} later"]
        except Unreadable as problem:
            self._name_holes(item)
            return [f"{item.name} was not rewritten: {problem}"]
        return [f"{fresh.name} was rewritten {how}: {before} bytes before, {self._size(fresh.name)} now"]

    def _join(self) -> list[str]:
        """Join neighbouring segments below the floor."""
        done: list[str] = []
        for run in joined_segments.runs(self._sealed(), floor=self._view.life.floor):
            if self.is_ending:
                break
            done += self._join_run(run)
        return done

    def _join_run(self, run: list[Segment]) -> list[str]:
        opened, plan, last = self._view.opened, self._keep_plan(), run[-1]
        absorbed = [item.header.segment_id for item in run[:-1]]
        rewriter = Rewriter(self._view.handles, placed=partial(self._view.replace, absorbed=absorbed))
        before = sum(self._size(item.name) for item in run)
        try:
            fresh = rewriter.write(
                last.name,
                joined_segments.header_of(run),
                joined_segments.frames_of(run, lambda item: SegmentFilter(item, plan, self._commands)),
                run[0].org_before,
                encoding=max(encoding_of(item.header) for item in run),
                erased=sum(len(plan.erased_in(item)) for item in run),
                instead_of=last,
            )
        except (InUse, Unreadable, errors.NoSpace) as problem:
            return [f"{len(run)} segments up to {last.name} were not joined: {problem}"]
        opened.absorbed += [item.name for item in run[:-1]]
        size = self._size(fresh.name)
        done = [f"{len(run)} segments were joined to one, {fresh.name}: {before} bytes before, {size} now"]
        return done + self._remove_absorbed()

    def _remove_absorbed(self) -> list[str]:
        """Remove the files of segments that were joined to others. A file that is held open is removed later."""
        opened = self._view.opened
        if not opened.absorbed:
            return []
        names, opened.absorbed = opened.absorbed, joined_segments.remove(self._view.handles, opened.absorbed)
        left = [f"{name} is held open by a reader; it is removed later" for name in opened.absorbed]
        count = len(names) - len(left)
        return left + ([f"files of segments that were joined to others: {count} removed"] if count else [])

    def _name_holes(self, item: Segment) -> None:
        """Read a damaged segment to its end: the reader notes each hole."""
        first, last = item.header.first_position, item.next_position - 1
        for _ in self._view.reader.bodies(self._view.segments, after=first - 1, end=last):
            pass

    # --- what there is ---------------------------------------------------------------------------------------------

    def _keep_plan(self) -> KeepPlan:
        with self._view.lock:
            life = self._view.life
            return KeepPlan(dict(life.cuts), sorted(life.erased))

    def _sealed(self) -> Segments:
        return self._view.segments[:-1]

    def _seal_if(self, is_due: Callable[[Segment], bool]) -> list[str]:
        """Seal the current segment if it has to be rewritten; returns a line if that has to wait."""
        with self._view.lock:
            if is_due(self._view.segments[-1]) and not self._seal():
                return [f"{self._view.segments[-1].name} is held open by a reader; it is sealed and rewritten later"]
            return []

    def _move_superfluous(self) -> list[str]:
        opened = self._view.opened
        done = [quarantine.move(self._view.handles, name, time_ns=self._clock()) for name in opened.superfluous]
        opened.superfluous.clear()
        plan = self._keep_plan()
        return done + self._blank_quarantine([], plan) if done and plan.erased else done

    def _bytes(self) -> int:
        files, directory = self._view.handles.files, self._view.handles.directory
        kept = [f"quarantine/{name}" for name in files.list(f"{directory}/quarantine")]
        logs = [name for name in files.list(directory) if name.endswith(".log")]
        return sum(map(self._size, kept + logs))

    def _size(self, name: str) -> int:
        return size_of(self._view.handles.files, f"{self._view.handles.directory}/{name}")


def has_erasures(transactions: Sequence[Transaction]) -> bool:
    """Whether one of these transactions erases something."""
    asked = [transaction.maintenance for transaction in transactions if transaction.maintenance is not None]
    return any(maintenance.erasures for maintenance in asked)
