"""Refilling what a damaged log has lost from a donor: exactly the missing positions, checked, as a new generation.

First everything is checked and nothing is changed. The donor must hold every missing position. Each event must have a
checksum and a link that fit between what is left before it and after it, and an id that the segment's index knows, if
there is one. Then the damaged files are copied to quarantine, whole, and the segments are written again: valid frames
as they are, the gaps from the donor. A damaged current.log is sealed in this way, and a new one begun. Pruned and
erased events stay so, whatever the donor holds.

If the donor is a copy of this log, the side records of a gap come from its frames. Otherwise they follow from the
control facts; leases and records of commands in the gap are lost then, and the result says so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import msgspec

from tallystick import errors
from tallystick.engines.files import damage, discovery, index_file, known_positions, mark, segment
from tallystick.engines.files.damage import Gap, Run, SurveyedSegment
from tallystick.engines.files.donor_events import DonorEvents, copy_of_this
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.index_file import SealedIndex
from tallystick.engines.files.known_positions import KnownPosition
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.replacement import Replacement
from tallystick.engines.files.segments import Segment
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import facts, iterate
from tallystick.store.claims import Claims
from tallystick.store.filesystem import FileSystem
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.page import Hole
from tallystick.store.refill import Donor, Refilled


def refill(
    files: FileSystem,
    directory: str,
    donor: Donor,
    *,
    clock: Callable[[], int],
    progress: Callable[[int], None],
) -> Refilled:
    """Refill every damaged range of a log that is not open for writing; all of them or none."""
    lock = files.lock(f"{directory}/lock")
    handles = Handles(files, directory)
    try:
        found, marked, parts = survey_log(handles)
        if (reason := why_no_end(found, marked)) is not None:
            raise errors.RefillRefused(url=f"files:{directory}", source=donor.name, reason=reason)
        if not any(part.is_damaged for part in parts):
            return Refilled(donor.name)
        indexes = damage.indexes(handles, parts[0].header.store_id)
        plan = RefillPlan(parts, donor, indexes, url=f"files:{directory}", progress=progress)
        plan.check()
        return Replacement(handles, plan, clock).run(found.headless)
    finally:
        handles.close()
        lock.release()


def survey_log(handles: Handles) -> tuple[discovery.Discovery, SegmentMark | None, list[SurveyedSegment]]:
    """What is in a log's directory, how far it reached, and what is left of each segment. Changes nothing."""
    files, directory = handles.files, handles.directory
    marked, known = mark.load(files, directory), known_positions.gather(files, directory)
    found = discovery.discover(handles, marked)
    discovery.require_segments(found, directory, marked, known)
    last = found.segments[-1]
    marked = _with_known(marked, known_positions.farthest(known, last, last.next_position), last)
    return found, marked, damage.survey(found, handles, marked)


def _with_known(marked: SegmentMark | None, reached: KnownPosition | None, last: Segment) -> SegmentMark | None:
    """The mark, or the farthest known position if that is farther than the mark."""
    if reached is None or (marked is not None and marked.next_position > reached.position):
        return marked
    if marked is not None:
        return msgspec.structs.replace(marked, next_position=reached.position + 1)
    lost = reached.identity or secrets.token_bytes(16)
    segment_id = last.header.segment_id if last.name == segment.CURRENT else lost
    return SegmentMark(segment_id, 0, reached.position + 1)


def why_no_end(found: discovery.Discovery, marked: SegmentMark | None) -> str | None:
    """Why it is not known where the log ended, and so what is missing; None if that is known."""
    if found.is_open_ended and marked is None:
        damage = found.current_damage or f"{segment.CURRENT} is missing"
        return f"{damage}, and there is no synced mark that says where the log ended"
    return None


class RefillPlan:
    """What is left of a log and what a donor adds, as one log."""

    def __init__(
        self,
        parts: list[SurveyedSegment],
        donor: Donor,
        indexes: list[SealedIndex],
        *,
        url: str,
        progress: Callable[[int], None],
    ) -> None:
        self.parts = parts
        self.donor = donor
        self.source = donor.name
        self.url = url
        self.claims = Claims()
        self._progress = progress
        self._indexes = indexes
        self.fill = DonorEvents(donor, store_id=parts[0].header.store_id)

    def check(self) -> None:
        """Refuse a donor that does not hold exactly what is missing. Changes nothing."""
        try:
            self._check()
        except errors.Damaged as problem:
            raise self._refused(f"it is damaged itself: {problem.message}") from problem

    def _check(self) -> None:
        for event, _ in self._merged():
            if facts.is_about_streams(event.stream):
                self.claims.take(event)
        if self.claims.problems:
            raise self._refused(self.claims.problems[0].reason)
        for part in self.parts:
            for gap in part.gaps:
                self._check_complete(gap)
        self._check_chain()

    def _merged(self) -> Iterator[tuple[Event, bool]]:
        """Every event in order of position, and whether it is from the donor."""
        for part in self.parts:
            for piece in part.left:
                if isinstance(piece, Run):
                    for _, body in part.frames(piece):
                        yield from ((event, False) for event in body.events)
                else:
                    yield from ((event, True) for event in self.fill.events(piece))
            self._progress(part.next_position - 1)

    def _check_complete(self, gap: Gap) -> None:
        """Refuse a donor that lacks positions of a gap, unless this log and its copy both pruned them."""
        expected, missing = gap.first, []
        for event in self.fill.events(gap):
            if event.position < expected:
                raise self._refused(f"its events are not in order at position {event.position}")
            if event.position > expected:
                missing += [Hole(expected, event.position - 1, "")]
            expected = event.position + 1
        if expected < gap.next:
            missing += [Hole(expected, gap.next - 1, "")]
        floor = self._pruned_through()
        if ranges := [f"{hole.first} to {hole.last}" for hole in missing if hole.last > floor]:
            raise self._refused(f"it does not hold positions {', '.join(ranges)}")

    def _pruned_through(self) -> int:
        """Up to where events may be missing: 0, unless the donor is a copy of this log that has pruned nothing more."""
        copy = copy_of_this(self.donor, self.parts[0].header.store_id)
        if copy is None:
            return 0
        theirs = {cut.stream: cut.through for cut in iterate.cuts(copy)}
        ours = {name: fact.through for name, fact in self.claims.pruned.items()}
        return copy.floor() if all(ours.get(name, 0) >= through for name, through in theirs.items()) else 0

    def _check_chain(self) -> None:
        heads = {name: Head(fact.through, bytes.fromhex(fact.link)) for name, fact in self.claims.pruned.items()}
        for event, is_donated in self._merged():
            pruned = self.claims.pruned.get(event.stream)
            if pruned is not None and event.seq <= pruned.through:
                continue
            before = heads.get(event.stream, NO_HEAD)
            if event.seq != before.seq + 1 or chain.link(event, before.link) != event.link:
                whose = "its event" if is_donated else "what is left"
                reason = f"{whose} at position {event.position} does not follow from the event of its stream before it"
                raise self._refused(reason)
            if is_donated:
                self._check_donated(event)
            heads[event.stream] = Head(event.seq, event.link)

    def _check_donated(self, event: Event) -> None:
        if _is_denied(event, self._indexes):
            raise self._refused(f"the index of what was lost does not know its event at position {event.position}")
        if event.payload is None:
            if event.seq not in self.claims.erased.get(event.stream, {}):
                raise self._refused(f"its event at position {event.position} is erased, and here it is not")
        elif chain.checksum(event.payload) != event.checksum:
            raise self._refused(f"its event at position {event.position} does not have its checksum")

    def _refused(self, reason: str) -> errors.RefillRefused:
        return errors.RefillRefused(url=self.url, source=self.donor.name, reason=reason)


def _is_denied(event: Event, indexes: list[SealedIndex]) -> bool:
    """Whether indexes cover the lost frames, and none of them knows the event."""
    covering = [index for index in indexes if index.next_position > event.position]
    try:
        covering = [index for index in covering if index.frame_before(event.position) != (0, 0)]
        return bool(covering) and all(index.find(event.id) is None for index in covering)
    except index_file.BadIndex:
        return False
