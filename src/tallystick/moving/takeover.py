"""Taking over a whole export: the same log again, in a store that is empty or holds the beginning of it.

Each batch is one commit that continues where the store ends. If an import was killed, run it again: events that are
already stored are compared one by one, and not written twice.
"""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.line import parse_stored
from tallystick.event.model import Event, NewEvent
from tallystick.moving import frame
from tallystick.moving.progress import Progress
from tallystick.store import capabilities, facts
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.claims import Claims, check_cuts, read_claims
from tallystick.store.commit import Transaction
from tallystick.store.maintenance import Maintenance, PrunedEvent
from tallystick.store.store import Store
from tallystick.store.transfer import MOVING, FoundingCut, Transfer, check_form


class Takeover:
    """One whole export on its way into a store, line by line."""

    def __init__(self, store: Store, begin: frame.Begin, progress: Progress, *, batch: int, batch_bytes: int) -> None:
        self._store = store
        self._log = store.log
        self._begin = begin
        self._progress = progress
        self._batch = batch
        self._batch_bytes = batch_bytes
        self._stored = self._after = self._log.head()  # events up to here are compared, those after it are written
        self._last = 0  # the position of the last event that came
        self._cuts: list[FoundingCut] = []
        self._pruned: list[PrunedEvent] = []
        self._body = bytearray()
        self._facts: dict[int, int] = {}  # position of an erased event -> position of the fact about it
        self._erased: dict[tuple[str, int], int] = {}
        self._events: list[Event] = []
        self._numbers: dict[int, int] = {}  # position -> number of the line
        self._bytes = 0
        self._counts = {"events": 0, "pruned": 0, "cuts": 0, "snapshots": 0}

    # --- lines -----------------------------------------------------------------------------------------------------

    def cut(self, line: frame.CutLine) -> None:
        """What was pruned of a stream."""
        self._counts["cuts"] += 1
        self._cuts.append(line.founding)

    def gone(self, line: frame.PrunedLine | frame.ErasedLine) -> None:
        """Positions whose events were pruned, or whose payloads were erased."""
        positions = (
            [each.position for each in line.events] if isinstance(line, frame.PrunedLine) else list(dict(line.events))
        )
        if any(position <= self._last for position in positions):
            raise errors.InvalidInput(reason="it comes after an event with a later position")
        if isinstance(line, frame.ErasedLine):
            self._facts |= dict(line.events)
            return
        self._counts["pruned"] += len(line.events)
        self._pruned += [entry.kept for entry in line.events]

    def event(self, event: Event, size: int, number: int) -> None:
        """An event, with the size and the number of its line."""
        self._last = event.position if self._begin.ordered else self._last + 1
        event = msgspec.structs.replace(event, position=self._last)
        self._counts["events"] += 1
        if event.payload is None:
            self._erased[event.stream, event.seq] = self._facts.get(event.position, 0)
        self._numbers[event.position] = number
        self._events.append(event)
        self._bytes += size
        if len(self._events) >= self._batch or self._bytes >= self._batch_bytes:
            self.flush(number)

    def snapshot(self, line: frame.SnapshotLine, number: int) -> None:
        """A piece of a snapshot. With the last piece it is stored."""
        self.flush(number)
        self._body += line.piece
        if not line.more:
            self._counts["snapshots"] += 1
            self._keep(bytes.fromhex(line.id), bytes(self._body))
            self._body.clear()

    def end(self, line: frame.End, digest: str, number: int) -> None:
        """The last line. Everything before it must have come."""
        self.flush(number)
        wanted = {name: getattr(line, name) for name in self._counts}
        if self._counts != wanted:
            reason = f"it counts {_listed(wanted)}, but before it there are {_listed(self._counts)}"
            raise errors.InvalidInput(reason=reason)
        if digest != line.sha256:
            raise errors.InvalidInput(reason="the lines before it were changed: their SHA-256 is different")
        if any(gone.position > self._after for gone in self._pruned):
            raise errors.InvalidInput(reason="positions after the last event were pruned")
        self._finish()

    # --- writing ---------------------------------------------------------------------------------------------------

    def flush(self, number: int) -> None:
        """Write the events that were collected, as one commit."""
        if not self._events:
            return
        try:
            known = [event for event in self._events if event.position <= self._stored]
            self._require_same(known)
            self._receive(self._events[len(known) :])
        except errors.TransferRefused as refusal:
            line = self._numbers.get(refusal.position, 0)
            first, last = (line, line) if line else (min(self._numbers.values()), number)
            raise self._progress.stopped(refusal, first=first, last=last) from refusal
        except errors.TallyError as problem:
            raise self._progress.stopped(problem, first=min(self._numbers.values()), last=number) from problem
        self._progress.lines = number
        self._events, self._bytes = [], 0
        self._numbers.clear()

    def _receive(self, events: list[Event]) -> None:
        if not events:
            return
        until = events[-1].position
        pruned = tuple(gone for gone in self._pruned if self._after < gone.position <= until)
        cuts = tuple(self._cuts) if self._after == 0 else ()
        erased = {event.position: self._facts.get(event.position, 0) for event in events if event.payload is None}
        if any(event.type == facts.SNAPSHOTTED for event in events):
            self._await_snapshots()
        self._log.receive(Transfer(after=self._after, events=tuple(events), pruned=pruned, cuts=cuts, erased=erased))
        self._after = until
        self._pruned = [gone for gone in self._pruned if gone.position > until]
        self._facts = {position: fact for position, fact in self._facts.items() if position > until}
        self._progress.imported += len(events)
        self._progress.pruned += len(pruned)

    def _await_snapshots(self) -> None:
        """Record that snapshots will follow, before the facts about them are written."""
        if MOVING not in self._log.checkpoints.names():
            self._log.checkpoints.save(Checkpoint(MOVING, self._log.store_id, 0, 0, b""), previous=None)

    def _require_same(self, events: list[Event]) -> None:
        """Refuse events that differ from those that the store holds at these positions."""
        if not events:
            return
        first, last = events[0].position, events[-1].position
        page = self._log.read(after=first - 1, until=last, limit=len(events) + 1, over_pruned=True)
        for at, event in enumerate(events):
            if at >= len(page.events) or page.events[at].row != event.row:
                reason = "the store holds something else at this position: it is not a copy of the exported store"
                raise errors.TransferRefused(position=event.position, reason=reason)
        if len(page.events) > len(events):
            raise errors.TransferRefused(position=last, reason="the store holds events that the export does not")
        self._progress.skipped += len(events)

    def _keep(self, id_: bytes, body: bytes) -> None:
        if id_ in self._log.snapshots.ids():
            return
        event = self._log.find(id_)
        if event is None or event.type != facts.SNAPSHOTTED:
            raise errors.SnapshotUnusable(snapshot=id_.hex(), reason="no control fact of the export names it")
        fact = facts.parse(event, facts.Snapshotted)
        if chain.checksum(body).hex() != fact.body_hash:
            raise errors.SnapshotUnusable(
                snapshot=id_.hex(), reason="its body is not the one that its control fact names"
            )
        made = facts.snapshot_of(event, fact, body)
        outcome = self._log.commit([Transaction([], maintenance=Maintenance(snapshots=(made,)))])[0]
        if isinstance(outcome, errors.TallyError):
            raise outcome
        self._progress.snapshots += 1

    def _finish(self) -> None:
        """Check that the facts and the log agree, and record snapshots that did not come as dropped."""
        claims = read_claims(self._log)
        wrong = [problem.reason for problem in (*claims.problems, *check_cuts(self._log, claims))]
        wrong += [*self._wrong_cuts(claims), *self._wrong_erasures(claims)]
        if wrong:
            raise errors.InvalidInput(reason=f"the export contradicts itself: {wrong[0]}; see `tally verify`")
        held = set(self._log.snapshots.ids())
        dropped = _dropped(claims, held)
        if dropped:
            self._store.record(dropped)
            self._progress.snapshots_left_out += len(claims.snapshots.keys() - held)
        self._log.checkpoints.delete(MOVING)

    def _wrong_cuts(self, claims: Claims) -> list[str]:
        """Cuts that differ from their facts, and pruned events that are too few or too many."""
        wrong = []
        for founding in self._cuts:
            cut, fact = founding.cut, claims.pruned.get(founding.cut.stream)
            if fact is None or any(
                getattr(cut, name) != getattr(fact, name)
                for name in ("through", "first_position", "last_position", "count", "org")
            ):
                wrong.append(f"the cut of {cut.stream} is not the one that its control fact names")
        count = sum(founding.cut.count for founding in self._cuts)
        if count != self._counts["pruned"]:
            wrong.append(f"{count} events were pruned, but there are {self._counts['pruned']} ids of pruned events")
        return wrong

    def _wrong_erasures(self, claims: Claims) -> list[str]:
        """Payloads that are missing without a fact, and facts about payloads that are not erased."""
        through = {founding.cut.stream: founding.cut.through for founding in self._cuts}
        named = {key: fact for key, fact in claims.erased_by.items() if key[1] > through.get(key[0], 0)}
        return [
            f"a control fact says that seq {seq} of {stream} was erased, but it has a payload"
            if (stream, seq) not in self._erased
            else f"seq {seq} of {stream} has no payload, but no control fact at the announced position says so"
            for (stream, seq), _ in sorted(named.items() ^ self._erased.items())
        ]


def why_not(store: Store, begin: frame.Begin, first: Event | None, cuts: list[frame.CutLine]) -> str | None:
    """Why a store cannot take over an export as it is; None if it can."""
    log = store.log
    if capabilities.GLOBAL_ORDER not in log.capabilities:
        return f"the {log.engine} engine has no order between streams"
    if log.profile != begin.profile:
        return f"its profile is {log.profile!r}, but that of the export is {begin.profile!r}"
    if log.head() == 0:
        return None
    stored = log.read(limit=1, over_pruned=True).events
    if first is None or not stored or (stored[0].id, stored[0].link) != (first.id, first.link):
        return "it holds other events"
    if log.cuts(limit=len(cuts) + 1) != sorted((line.founding.cut for line in cuts), key=lambda cut: cut.stream):
        return "different parts of it were pruned"
    return None


def stored_event(text: bytes) -> Event:
    """The event of a line of a whole export; refused if it does not have the form of a stored event."""
    try:
        event = parse_stored(text)
    except ValueError as problem:  # the errors of msgspec are too
        raise errors.InvalidInput(reason=f"it is not a line of an export: {problem}") from problem
    check_form(event)
    return event


def _dropped(claims: Claims, held: set[bytes]) -> list[tuple[str, NewEvent]]:
    """Facts that name the snapshots that did not come with the log."""
    missing: dict[str, list[str]] = {}
    for id_, fact in claims.snapshots.items():
        if id_ not in held:
            missing.setdefault(fact.stream, []).append(id_.hex())
    found = []
    for stream, ids in missing.items():
        dropped = facts.SnapshotsDropped(stream=stream, snapshots=ids, reason="it did not come with the moved log")
        about = facts.stream_about(stream) if stream else facts.STORE_SNAPSHOTS
        found.append((about, NewEvent(facts.SNAPSHOT_DROPPED, dropped.payload)))
    return found


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
