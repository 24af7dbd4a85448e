"""Accepting the loss of damaged ranges of a file log: each gap becomes an empty frame with a `lost` record.

The frame covers the positions of the gap, so none of them is used again. What an index knew of the range stays as side
records: the ends of streams, the ids of lost events, the last sequences of sources, leases, cuts, and the list of
snapshots. The damaged files are kept in quarantine, whole, and so are files of snapshots that only lost frames named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import msgspec

from tallystick import errors
from tallystick.engines.files import damage, lifecycle, quarantine, refill, side
from tallystick.engines.files.damage import Gap, Run, SurveyedSegment
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.index_file import BadIndex, SealedIndex
from tallystick.engines.files.replacement import Replacement
from tallystick.engines.files.rewrite import FrameDraft
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.snapshots import FileSnapshots
from tallystick.event.model import Event
from tallystick.store.acceptance import Acceptance, KeptFile, LostSeqs
from tallystick.store.claims import Claims
from tallystick.store.filesystem import FileSystem, pieces
from tallystick.store.leases import Lease
from tallystick.store.loss import Loss, LostEnd


def accept(files: FileSystem, directory: str, *, clock: Callable[[], int], dry_run: bool) -> Acceptance:
    """Replace every gap of a log that is not open for writing with a lost range; returns what is lost."""
    lock = files.lock(f"{directory}/lock")
    handles = Handles(files, directory)
    try:
        found, marked, parts = refill.survey_log(handles)
        if (reason := refill.why_no_end(found, marked)) is not None:
            raise errors.AcceptRefused(url=f"files:{directory}", reason=reason)
        plan = LossPlan(parts, damage.indexes(handles, parts[0].header.store_id))
        if dry_run or not any(part.is_damaged for part in parts):
            return plan.acceptance
        writing = Replacement(handles, plan, clock)
        done = writing.run(found.headless)
        snapshots = _keep_snapshots(handles, writing, clock)
        kept = tuple(_kept(files, directory, name) for name in (*writing.kept.values(), *snapshots))
        return msgspec.structs.replace(plan.acceptance, made=done.made, done=done.done, kept=kept)
    finally:
        handles.close()
        lock.release()


class LossPlan:
    """What is left of a log, and a lost range for each gap."""

    is_copy = True  # the result lists what was in a gap

    def __init__(self, parts: list[SurveyedSegment], indexes: list[SealedIndex]) -> None:
        self.parts = parts
        self.claims = Claims()
        self.source = "none"
        self._records: dict[Gap, SideRecords] = {}
        left = _StreamRemains()
        for part in parts:
            events = left.add_events(part)
            known = _covering_index(indexes, part)
            for number, gap in enumerate(gap for gap in part.gaps if gap.next > gap.first):
                self._records[gap] = _records(gap, part, known, events, is_first=not number)
        self._note_orgs(left, indexes)
        losses = [loss for records in self._records.values() for loss in records.losses]
        self.acceptance = Acceptance(tuple(losses), *left.lost(losses))

    def _note_orgs(self, left: _StreamRemains, indexes: list[SealedIndex]) -> None:
        """Find the orgs of streams that began where no index is left: later indexes may know them."""
        for gap, records in self._records.items():
            (loss,) = records.losses
            if not loss.is_indexed:
                begun = left.begun_before(gap)
                ends = tuple(_begun(event, indexes) for event in begun)
                loss = msgspec.structs.replace(loss, ends=ends)
                self._records[gap] = msgspec.structs.replace(records, losses=(loss,))

    @property
    def fill(self) -> LossPlan:
        """What fills the gaps."""
        return self

    def frames(self, gap: Gap, *, recorded: int) -> Iterator[FrameDraft]:
        """One frame without events."""
        if gap.next > gap.first:
            yield FrameDraft(gap.first, gap.next, recorded, [], side.encode(self._records[gap]))


class _StreamRemains:
    """What is left of each stream, and which seqs are missing."""

    def __init__(self) -> None:
        self._ends: dict[str, Event] = {}
        self._begun: list[Event] = []
        self._missing: list[LostSeqs] = []
        self._cuts: dict[str, int] = {}

    def add_events(self, part: SurveyedSegment) -> list[Event]:
        """Look at the events of the next part, and return them without their payloads."""
        found: list[Event] = []
        for run in [piece for piece in part.left if isinstance(piece, Run)]:
            for _, body in part.frames(run):
                self._cuts |= {cut.stream: cut.through for cut in side.decode(body.side).cuts}
                for event in body.events:
                    before = self._ends.get(event.stream)
                    seq = before.seq if before is not None else 0
                    if before is None and event.seq > 1:
                        self._begun.append(event)
                    if event.seq > seq + 1:
                        self._missing.append(LostSeqs(event.stream, seq + 1, event.seq - 1))
                    self._ends[event.stream] = msgspec.structs.replace(event, payload=None)
                    found.append(self._ends[event.stream])
        return found

    def begun_before(self, gap: Gap) -> list[Event]:
        """The first event that is left of each stream that began in a gap or before it."""
        return [event for event in self._begun if event.position >= gap.next]

    def lost(self, losses: list[Loss]) -> tuple[tuple[LostSeqs, ...], tuple[str, ...]]:
        """The seqs that are known to be lost, and the streams that may have lost more at their ends."""
        missing = list(self._missing)
        for end in (end for loss in losses for end in loss.ends):
            known = self._ends.get(end.stream)
            seq = known.seq if known is not None else 0
            if seq < end.seq:
                missing.append(LostSeqs(end.stream, seq + 1, end.seq))
        last = max((loss.first for loss in losses if not loss.is_indexed), default=0)
        uncertain = [name for name, event in self._ends.items() if event.position < last]
        cuts = self._cuts
        kept = [LostSeqs(lost.stream, max(lost.first, cuts.get(lost.stream, 0) + 1), lost.last) for lost in missing]
        return tuple(lost for lost in kept if lost.first <= lost.last), tuple(sorted(uncertain))


def _covering_index(indexes: list[SealedIndex], part: SurveyedSegment) -> SealedIndex | None:
    """An index that was made while the segment could be read, and covers all of its gaps."""
    gaps = [gap for gap in part.gaps if gap.next > gap.first]
    for index in indexes:
        try:
            begins = gaps and index.frame_before(gaps[0].first) != (0, 0)
            if begins and index.next_position >= gaps[-1].next:
                for name in ("ids", "entries", "entry_ends", "rest", "life", "gone"):
                    index.section(name)
                return index
        except BadIndex:
            continue
    return None


def _records(
    gap: Gap, part: SurveyedSegment, index: SealedIndex | None, left: list[Event], *, is_first: bool
) -> SideRecords:
    """What stays of a gap. The first gap of a segment gets what an index knew of the whole segment."""
    reason = f"{part.name or 'a segment that is gone'} was damaged, and the loss accepted"
    first, last = gap.first, gap.next - 1
    if index is None:
        return SideRecords(losses=(Loss(first, last, reason),))
    if not is_first:
        return SideRecords(losses=(Loss(first, last, reason, is_indexed=True),))
    heads = [(name, entry.head) for name, entry in index.entries()]
    ends = tuple(LostEnd(name, head.seq, head.link, head.org) for name, head in heads)
    ids = {event.id for event in left}
    life, rest = index.lifecycle(), msgspec.msgpack.decode(index.section("rest"))
    return SideRecords(
        losses=(Loss(first, last, reason, is_indexed=True, ends=ends),),
        gone=tuple(id_ for id_ in index.each_id() if id_ not in ids),
        sources=tuple(((org, name), seq) for (org, name), seq in rest["sources"].items()),
        leases=tuple(msgspec.convert(lease, Lease) for lease in rest["leases"]),
        cuts=tuple(life.cuts.values()),
        snapshots=tuple(id_ for id_, held in life.snapshots.items() if held),
        dropped=tuple(id_ for id_, held in life.snapshots.items() if not held),
    )


def _begun(event: Event, indexes: list[SealedIndex]) -> LostEnd:
    """The end of a stream before the first event that is left of it. Its link is not known."""
    org = None
    for index in indexes:
        with suppress(BadIndex):
            entry = index.stream(event.stream)
            org = org or (entry.head.org if entry is not None else None)
    return LostEnd(event.stream, event.seq - 1, bytes(32), org)


def _keep_snapshots(handles: Handles, writing: Replacement, clock: Callable[[], int]) -> list[str]:
    """Copy files of snapshots that no frame names to quarantine: the next opening removes the files."""
    life = lifecycle.merged(item.lifecycle() for item in writing.segments)
    names = FileSnapshots(handles.files, handles.directory, lambda: life).orphans()
    copy = quarantine.copy
    return [copy(handles.files, handles.directory, name, time_ns=clock(), folder="snapshots") for name in names]


def _kept(files: FileSystem, directory: str, name: str) -> KeptFile:
    """A kept file, with the hash of its bytes."""
    digest = hashlib.sha256()
    with closing(files.open_read(f"{directory}/{name}")) as file:
        for data in pieces(file, 0, file.size()):
            digest.update(data)
    return KeptFile(name, digest.hexdigest())
