"""Refilling what a damaged log has lost from a donor: exactly the missing positions, checked, as a new generation.

First everything is checked and nothing changed: the donor must hold every missing position, each event with the
checksum and the link that lead from what is left before it to what is left behind it, and with an id that the
segment's index knows, where there is one. Then the damaged files are copied to quarantine, whole, and the segments
written again: valid frames as they are, the gaps from the donor. A damaged current.log is sealed that way, and a new
one begun. What was pruned or erased stays so, whatever the donor holds.

Side records of a gap come from the frames of a copy of this log, if the donor is one. From any other donor they follow
from the control facts; leases and the records of commands in the gap are lost then, and that is said.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterator

import msgspec

from tallystick import errors
from tallystick.engines.files import (
    damage,
    discovery,
    evidence,
    generation,
    index_file,
    mark,
    quarantine,
    rewriting,
    segment,
)
from tallystick.engines.files.damage import Gap, Part, Run
from tallystick.engines.files.donated import ClaimsRemains, Given, all_cuts, copy_of_this
from tallystick.engines.files.evidence import Reached
from tallystick.engines.files.index_file import SealedIndex
from tallystick.engines.files.mark import Mark
from tallystick.engines.files.rewriting import Everything, Piece, Rewriter
from tallystick.engines.files.section_cache import SectionCache
from tallystick.engines.files.segments import Handles, Segment, SegmentSet
from tallystick.engines.files.writer import following
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import facts
from tallystick.store.claims import Claims
from tallystick.store.filesystem import FileSystem, replace_file
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.page import Hole
from tallystick.store.refill import Donor, Refilled

UNKNOWN_GENERATION = 1 << 16  # of a segment whose header is gone: higher than it can have been


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
        marked, cache, known = mark.load(files, directory), SectionCache(), evidence.gathered(files, directory)
        found = discovery.discover(files, directory, marked, cache=cache, handles=handles)
        discovery.require_segments(found, directory, marked, known)
        marked = _with_evidence(marked, evidence.farthest(known, SegmentSet(found.segments)), found.segments[-1])
        parts = damage.survey(found, handles, marked)
        _require_end(found, marked, directory, donor)
        if not any(part.is_damaged for part in parts):
            return Refilled(donor.name)
        indexes = damage.indexes(handles, cache, parts[0].header.store_id)
        plan = Plan(parts, donor, indexes, url=f"files:{directory}", progress=progress)
        plan.check()
        return _Refilling(handles, cache, plan, clock).run(found.headless)
    finally:
        handles.close()
        lock.release()


def _with_evidence(marked: Mark | None, reached: Reached | None, last: Segment) -> Mark | None:
    """The mark, moved on to where the log reached if something else knows more of that."""
    if reached is None or (marked is not None and marked.next_position > reached.position):
        return marked
    if marked is not None:
        return msgspec.structs.replace(marked, next_position=reached.position + 1)
    lost = reached.identity or secrets.token_bytes(16)
    segment_id = last.header.segment_id if last.name == segment.CURRENT else lost
    return Mark(segment_id, 0, reached.position + 1)


def _require_end(found: discovery.Found, marked: Mark | None, directory: str, donor: Donor) -> None:
    """Refuse if nothing says where the log ended: then nobody knows what is missing."""
    if found.current_damage and marked is None:
        reason = f"{found.current_damage}, and there is no synced mark that says where the log ended"
        raise errors.RefillRefused(url=f"files:{directory}", source=donor.name, reason=reason)


class Plan:
    """What is left and what a donor gives, as one log."""

    def __init__(
        self,
        parts: list[Part],
        donor: Donor,
        indexes: list[SealedIndex],
        *,
        url: str,
        progress: Callable[[int], None],
    ) -> None:
        self.parts = parts
        self.donor = donor
        self.url = url
        self.claims = Claims()
        self._progress = progress
        self._indexes = indexes
        self.given = Given(donor, store_id=parts[0].header.store_id)

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
                    yield from ((event, True) for event in self.given.events(piece))
            self._progress(part.next_position - 1)

    def _check_complete(self, gap: Gap) -> None:
        """Every position of a gap is given, but for what this log and its copy both know to be pruned."""
        expected, missing = gap.first, []
        for event in self.given.events(gap):
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
        """Up to where events may be missing: only a copy of this log in which nothing is pruned that is not here."""
        copy = copy_of_this(self.donor, self.parts[0].header.store_id)
        if copy is None:
            return 0
        theirs = {cut.stream: cut.through for cut in all_cuts(copy)}
        ours = {name: fact.through for name, fact in self.claims.pruned.items()}
        return copy.floor() if all(ours.get(name, 0) >= through for name, through in theirs.items()) else 0

    def _check_chain(self) -> None:
        heads = {name: Head(fact.through, bytes.fromhex(fact.link)) for name, fact in self.claims.pruned.items()}
        for event, is_given in self._merged():
            pruned = self.claims.pruned.get(event.stream)
            if pruned is not None and event.seq <= pruned.through:
                continue
            before = heads.get(event.stream, NO_HEAD)
            if event.seq != before.seq + 1 or chain.link(event, before.link) != event.link:
                whose = "its event" if is_given else "what is left"
                reason = f"{whose} at position {event.position} does not follow from the event of its stream before it"
                raise self._refused(reason)
            if is_given:
                self._check_given(event)
            heads[event.stream] = Head(event.seq, event.link)

    def _check_given(self, event: Event) -> None:
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
    """Whether there is an index of the lost frames, and none knows the event."""
    covering = [index for index in indexes if index.next_position > event.position]
    try:
        covering = [index for index in covering if index.frame_before(event.position) != (0, 0)]
        return bool(covering) and all(index.find(event.id) is None for index in covering)
    except index_file.BadIndex:
        return False


class _Refilling:
    """The writing: damaged segments in order, each as a new generation."""

    def __init__(self, handles: Handles, cache: SectionCache, plan: Plan, clock: Callable[[], int]) -> None:
        self._handles = handles
        self._plan = plan
        self._clock = clock
        self._older: list[Segment] = []
        self._rewriter = Rewriter(handles, cache)
        self._made: list[str] = []
        self._done: list[str] = []
        self._kept: set[str] = set()
        self._events = 0

    def run(self, headless: list[str]) -> Refilled:
        """Write all; files without a header of which nothing could be used are put aside too."""
        for part in self._plan.parts:
            if part.is_damaged:
                self._older.append(self._write(part))
            else:
                assert part.item is not None
                self._older.append(part.item)
        if self._older[-1].header.ending is not None:  # the last segment was made again, sealed: begin the next one
            self._begin()
        for name in headless:
            if name not in self._kept:
                self._done.append(quarantine.move(self._handles, name, time_ns=self._clock()))
        gaps = [gap for part in self._plan.parts for gap in part.gaps]
        ranges = tuple(Hole(gap.first, gap.next - 1, "refilled") for gap in gaps if gap.next > gap.first)
        return Refilled(self._plan.donor.name, ranges, self._events, tuple(self._made), tuple(self._done))

    def _begin(self) -> None:
        files, directory = self._handles.files, self._handles.directory
        if files.exists(f"{directory}/{segment.CURRENT}"):
            self._keep(segment.CURRENT)
        begun = following(self._older[-1], self._handles, clock=self._clock)
        replace_file(files, directory, segment.CURRENT, segment.encode(begun.header))
        self._done.append(f"began a new current.log after {self._older[-1].name}")

    def _keep(self, name: str) -> None:
        """Copy a damaged file to quarantine, once."""
        if name not in self._kept:
            self._kept.add(name)
            kept = quarantine.copy(self._handles.files, self._handles.directory, name, time_ns=self._clock())
            self._done.append(f"kept the damaged {name} as {kept}")

    def _write(self, part: Part) -> Segment:
        files, directory = self._handles.files, self._handles.directory
        if part.name:
            self._keep(part.name)
        name = part.name
        if name in ("", segment.CURRENT):
            taken = {*files.list(directory), *(f"{name[:-4]}.log" for name in files.list(f"{directory}/index"))}
            name = segment.sealed_name(taken, time_ns=self._clock())
        header = msgspec.structs.replace(part.header, generation=UNKNOWN_GENERATION, ending=None)
        encoding = segment.PLAIN
        if part.item is not None:
            header = rewriting.next_generation(part.header)
            encoding = rewriting.encoding_of(part.header)
        before = functools.partial(generation.org_in, list(self._older))
        fresh = self._rewriter.write(name, header, self._pieces(part), before, encoding=encoding)
        self._made.append(name)
        return fresh

    def _pieces(self, part: Part) -> Iterator[Piece]:
        remains = ClaimsRemains(self._plan.claims)
        recorded = part.header.created
        for piece in part.left:
            if isinstance(piece, Run):
                for frame, body in part.frames(piece):
                    recorded = body.recorded
                    yield rewriting.piece_of(frame, body, Everything())
                continue
            for given in self._plan.given.pieces(piece, recorded=recorded):
                self._events += len(given.events)
                yield remains.applied(given)
            if piece.next == piece.first:
                self._done.append(
                    f"what stood before position {piece.first} held no event: a lease or a command is lost"
                )
            elif not self._plan.given.is_copy:
                lost = "leases and records of commands are not in it"
                self._done.append(
                    f"positions {piece.first} to {piece.next - 1} come from {self._plan.donor.name}: {lost}"
                )
