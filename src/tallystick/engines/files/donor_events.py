"""The frames that a donor gives for a gap. Side records come from a copy of this log, or follow from control facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tallystick.engines.files import side
from tallystick.engines.files.damage import Gap
from tallystick.engines.files.engine import FilesLog
from tallystick.engines.files.frame import Body, Frame
from tallystick.engines.files.rewrite import FrameDraft, kept_frame
from tallystick.engines.files.side import SideRecords
from tallystick.event.model import Event
from tallystick.store import facts
from tallystick.store.claims import Claims
from tallystick.store.idempotency import CommandRecord
from tallystick.store.maintenance import Cut, Erasure
from tallystick.store.page import Hole
from tallystick.store.refill import Donor

PIECE_EVENTS_MAX = 500


def copy_of_this(donor: Donor, store_id: bytes) -> FilesLog | None:
    """The donor's log, if it is a file log with this store's id."""
    log = donor.log
    return log if isinstance(log, FilesLog) and log.store_id == store_id else None


class DonorEvents:
    """The events and frames that fill gaps."""

    def __init__(self, donor: Donor, *, store_id: bytes) -> None:
        self._donor = donor
        self._copy = copy_of_this(donor, store_id)
        self.is_copy = self._copy is not None

    def events(self, gap: Gap) -> Iterator[Event]:
        """The events of a gap that the donor has, in order."""
        if gap.next > gap.first:
            yield from self._donor.events(gap.first, gap.next - 1)

    def frames(self, gap: Gap, *, recorded: int) -> Iterator[FrameDraft]:
        """The frames of a gap. `recorded` is the time of the frame before it, used where the donor has no time."""
        if gap.next == gap.first:
            return
        yield from self._frames_of_copy(self._copy, gap) if self._copy is not None else self._new_frames(gap, recorded)

    def _frames_of_copy(self, log: FilesLog, gap: Gap) -> Iterator[FrameDraft]:
        reached = gap.first
        for last, body in log.bodies(after=gap.first - 1, until=gap.next - 1):
            assert not isinstance(body, Hole)
            end = max(min(last + 1, gap.next), reached)
            events = [event for event in body.events if reached <= event.position < end]
            yield FrameDraft(reached, end, body.recorded, events, list(body.side))
            reached = end

    def _new_frames(self, gap: Gap, recorded: int) -> Iterator[FrameDraft]:
        """Frames of at most `PIECE_EVENTS_MAX` events. They cover every position of the gap, also pruned ones."""
        waiting: list[Event] = []
        first = gap.first
        for event in self.events(gap):
            if len(waiting) == PIECE_EVENTS_MAX:
                yield self._draft(first, event.position, recorded, waiting)
                first, waiting = event.position, []
            waiting.append(event)
        yield self._draft(first, gap.next, recorded, waiting)

    def _draft(self, first: int, next_: int, recorded: int, events: list[Event]) -> FrameDraft:
        log = self._donor.log
        known = log.recorded_at(events[-1].position) if log is not None and events else None
        return FrameDraft(first, next_, known or recorded, events, side.encode(records_of(events)))


def records_of(events: Iterable[Event]) -> SideRecords:
    """The side records that follow from control facts."""
    cuts: list[Cut] = []
    erasures: list[Erasure] = []
    snapshots: list[bytes] = []
    dropped: list[bytes] = []
    for event in events:
        if event.type == facts.PRUNED:
            pruned = facts.parse(event, facts.Pruned)
            known = {name: getattr(pruned, name) for name in Cut.__struct_fields__}
            cuts.append(Cut(**(known | {"link": bytes.fromhex(pruned.link)})))
        elif event.type == facts.ERASED:
            erased = facts.parse(event, facts.Erased)
            erasures.append(
                Erasure(
                    stream=erased.stream,
                    seq=erased.seq,
                    position=erased.position,
                    id=bytes.fromhex(erased.event),
                    checksum=bytes.fromhex(erased.checksum),
                )
            )
        elif event.type == facts.SNAPSHOTTED:
            snapshots.append(event.id)
        elif event.type == facts.SNAPSHOT_DROPPED:
            dropped += map(bytes.fromhex, facts.parse(event, facts.SnapshotsDropped).snapshots)
    return SideRecords(cuts=tuple(cuts), erasures=tuple(erasures), snapshots=tuple(snapshots), dropped=tuple(dropped))


class ClaimsFilter:
    """What control facts leave of events: nothing of what was pruned, no payload and no response of what was erased."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def kept(self, draft: FrameDraft) -> FrameDraft:
        """A frame without what is gone."""
        frame = Frame(0, 0, draft.first_position, draft.next_position)
        return kept_frame(frame, Body(draft.recorded, draft.events, list(map(self._answered, draft.side))), self)

    def _answered(self, record: Any) -> Any:
        """A record as it is. A command that appended an event which was erased since loses its response."""
        if record[0] != "command":
            return record
        command = msgspec.convert(record[1:], CommandRecord)
        erased = self._claims.erased
        if any(first <= seq <= last for stream, first, last in command.ranges for seq in erased.get(stream, ())):
            return ("command", *msgspec.structs.astuple(command.without_response))
        return record

    def event(self, event: Event) -> Event | None:
        pruned = self._claims.pruned.get(event.stream)
        if pruned is not None and event.seq <= pruned.through:
            return None
        if event.seq in self._claims.erased.get(event.stream, {}):
            return msgspec.structs.replace(event, payload=None)
        return event

    def record(self, record: Any, offset: int) -> bool:
        return True
