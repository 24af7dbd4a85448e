"""The judgement of a commit, the same for every engine that judges in Python.

A ledger reads through an engine's view of what is stored, judges transactions one after the other, and collects what
has to be written for those that pass. A transaction that is refused leaves no trace.

Order of judgement: command, requirements, condition; for each write: retry by id, expectation, org, lease, source
sequence, then seq, position and link; then maintenance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeAlias

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain, ids, names
from tallystick.event.model import Draft, Event, InDraft, InRow, Row
from tallystick.store import checked, expectation, leases
from tallystick.store.commit import Appended, Outcome, Transaction, Write
from tallystick.store.conditions import refusal
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.leases import Lease
from tallystick.store.maintenance import Cut, Erasure, Maintenance
from tallystick.store.query import Condition, Subject, subject
from tallystick.store.retries import difference
from tallystick.store.snapshots import Snapshot


class Head(msgspec.Struct, frozen=True, gc=False):
    """The end of a stream: its last seq, the link there, and the org it belongs to."""

    seq: int
    link: bytes
    org: str | None = None


NO_HEAD = Head(0, chain.GENESIS)

Source: TypeAlias = tuple[str, str]
"""A source of events: the org that its events name, or an empty text, and its name."""


class View(Protocol):
    """What a ledger asks of an engine, inside the engine's own commit."""

    def stream_head(self, stream: str) -> Head | None: ...
    def find(self, id: bytes) -> Event | None: ...
    def source_head(self, org: str, source: str) -> int: ...
    def lease(self, stream: str) -> Lease | None: ...
    def cut(self, stream: str) -> Cut | None: ...
    def pruned(self, id: bytes) -> bool: ...
    def command(self, key: CommandKey) -> CommandRecord | None: ...
    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        """The positions past `condition.after` whose events match, the first `limit`. Pruned and erased ones count."""


class Holder:
    """A handle that writes: its identity, and the leases that it believes to hold."""

    def __init__(self) -> None:
        self.owner = leases.new_owner()
        self.held: dict[str, int] = {}


class Trace:
    """What one transaction would change. It is merged into the ledger when all of it has passed."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.heads: dict[str, Head] = {}
        self.sources: dict[Source, int] = {}
        self.leases: dict[str, Lease] = {}
        self.by_id: dict[bytes, Row] = {}
        self.commands: dict[CommandKey, CommandRecord] = {}
        self.cuts: dict[str, Cut] = {}
        self.erasures: dict[bytes, Erasure] = {}
        self.snapshots: list[Snapshot] = []
        self.dropped_snapshots: list[bytes] = []
        self.erased_responses: list[CommandKey] = []
        self.dropped_rows: list[tuple[str, str]] = []

    def merge(self, other: Trace) -> None:
        """Add what another trace would change."""
        self.rows += other.rows
        self.heads |= other.heads
        self.sources |= other.sources
        self.leases |= other.leases
        self.by_id |= other.by_id
        self.commands |= other.commands
        self.cuts |= other.cuts
        self.erasures |= other.erasures
        self.snapshots += other.snapshots
        self.dropped_snapshots += other.dropped_snapshots
        self.erased_responses += other.erased_responses
        self.dropped_rows += other.dropped_rows


class Ledger:
    """Judges transactions against a view. The engine then writes `rows`, `leases` and the rest in one commit."""

    def __init__(self, view: View, *, next_position: int, holder: Holder) -> None:
        self._view = view
        self._holder = holder
        self._next_position = next_position
        self._total = Trace()
        self._indexed: list[Subject] = []  # what queries ask of the rows, as far as a condition has looked at them
        self.rows: list[Row] = self._total.rows  # every row that passed, in order of position
        self.heads: dict[str, Head] = self._total.heads  # the new ends of the streams that were written
        self.sources: dict[Source, int] = self._total.sources  # the new sequence of each source that wrote

    @property
    def only_appends(self) -> bool:
        """Whether this commit has only rows, and what follows from them."""
        total = self._total
        return not (total.leases or total.commands) and self.maintenance is None

    @property
    def leases(self) -> list[Lease]:
        """The leases taken with this commit."""
        return list(self._total.leases.values())

    @property
    def commands(self) -> list[CommandRecord]:
        """The commands that took effect with this commit."""
        return list(self._total.commands.values())

    @property
    def maintenance(self) -> Maintenance | None:
        """What this commit does to what is stored already; None if it only appends."""
        total = self._total
        if not (total.cuts or total.erasures or total.snapshots or total.dropped_snapshots or total.erased_responses):
            return None
        return Maintenance(
            cuts=tuple(total.cuts.values()),
            erasures=tuple(total.erasures.values()),
            snapshots=tuple(total.snapshots),
            dropped_snapshots=tuple(total.dropped_snapshots),
            erased_responses=tuple(total.erased_responses),
            dropped_rows=tuple(total.dropped_rows),
        )

    def judge_each(self, transactions: Iterable[Transaction]) -> list[Outcome]:
        """Judge transactions one after the other. The outcome of a refused one is its error."""
        outcomes: list[Outcome] = []
        for transaction in transactions:
            try:
                outcomes.append(self.judge(transaction))
            except errors.TallyError as refusal:
                outcomes.append(refusal)
        return outcomes

    def judge(self, transaction: Transaction) -> list[Appended]:
        """The places of the transaction's writes; raises an error if the store refuses it."""
        writes = transaction.writes
        if len(writes) == 1 and not writes[0].sources and not writes[0].is_leased and only_writes(transaction):
            # Nothing fails after the first change, so there is nothing to take back: a trace of its own would take as
            # long as the rest of the judgement (`files, async: 64 tasks, 40,000 events/s`).
            return [self._write(writes[0], self._total)]
        trace = Trace()
        if transaction.command is not None:
            self._check_new(transaction.command.key)
        for stream, seq in transaction.require:
            head = self._head(stream, trace)
            if head.seq != seq:
                raise errors.Conflict(stream=stream, expected=seq, actual=head.seq)
        if transaction.unless is not None:
            self._check_condition(transaction.unless, writes)
        for stream in transaction.acquire:
            self._acquire(stream, trace, steal=transaction.steal)
        done = [self._write(write, trace, leased=write.is_leased) for write in writes]
        for stream in transaction.release:
            self._release(stream, trace)
        if transaction.command is not None:
            trace.commands[transaction.command.key] = _with_ranges(transaction.command, done)
        if transaction.maintenance is not None:
            self._maintain(transaction.maintenance, trace)
        self._total.merge(trace)
        return done

    def committed(self) -> None:
        """Note that the commit is durable: the leases in it are held, or given back."""
        for lease in self._total.leases.values():
            if lease.owner is None:
                self._holder.held.pop(lease.stream, None)
            else:
                self._holder.held[lease.stream] = lease.number

    def _write(self, write: Write, trace: Trace, *, leased: bool = False) -> Appended:
        stream, drafts = write.stream, write.drafts
        total = self._total
        head = self._head(stream, trace)
        already: list[Event] = []
        if write.ids_given:
            already = self._already_stored(write, trace)
            if len(already) == len(drafts):
                first, last = already[0], already[-1]
                return Appended(stream, first.seq, last.seq, first.position, last.position, last.link, len(already))
        if write.expected != expectation.ANY:
            self._check_expected(write, head, already)
        if write.after_link is not None and not already and write.after_link != head.link:
            raise errors.Conflict(stream=write.stream, expected=write.expected, actual=head.seq)
        org = self._check_org(write, head) if write.orgs else head.org
        if leased:
            self._check_lease(stream, trace)
        if write.sources:
            drafts = self._number_sources(write, trace, len(already))
        position = self._next_position + len(total.rows) + (0 if trace is total else len(trace.rows))
        rows = chain.extend(
            stream, drafts[len(already) :] if already else drafts, seq=head.seq, position=position, previous=head.link
        )
        trace.rows += rows
        if write.ids_given:
            trace.by_id |= {row[InRow.id]: row for row in rows}
        last_seq, link = head.seq + len(rows), rows[-1][InRow.link]
        trace.heads[stream] = Head(last_seq, link, org)
        first_seq, first_position = (already[0].seq, already[0].position) if already else (head.seq + 1, position)
        return Appended(stream, first_seq, last_seq, first_position, position + len(rows) - 1, link, len(already))

    def _head(self, stream: str, trace: Trace) -> Head:
        return trace.heads.get(stream) or self._total.heads.get(stream) or self._view.stream_head(stream) or NO_HEAD

    def _already_stored(self, write: Write, trace: Trace) -> list[Event]:
        """The events of a leading part of the write that are stored already, each with the same content."""
        given = [draft[InDraft.id] for draft in write.drafts]
        found = [self._stored(id_, trace) for id_ in given]
        if len(set(given)) != len(given):
            repeated = Counter(given).most_common(1)[0][0]
            raise errors.DuplicateId(id=ids.to_text(repeated), reason="it appears twice in one append")
        already: list[Event] = []
        for index, (id_, draft, event) in enumerate(zip(given, write.drafts, found, strict=True)):
            if event is None:
                if self._view.pruned(id_):
                    raise errors.DuplicateId(id=ids.to_text(id_), reason="it was recorded, and pruned since")
                continue
            reason = difference(write, index, draft, event)
            if reason is None and len(already) != index:
                reason = "it is stored, but the events before it in this append are not"
            if reason is None and already and event.seq != already[-1].seq + 1:
                reason = "it is stored, but not next to the event before it in this append"
            if reason is not None:
                raise errors.DuplicateId(id=ids.to_text(id_), reason=reason)
            already.append(event)
        return already

    def _stored(self, id_: bytes, trace: Trace) -> Event | None:
        row = trace.by_id.get(id_) or self._total.by_id.get(id_)
        if row is not None:
            return Event(*row)
        event = self._view.find(id_)
        return None if event is None else checked.require_payload(event)

    def _check_expected(self, write: Write, head: Head, already: list[Event]) -> None:
        """Events of the write that are stored count as not yet stored if they are the end of the stream."""
        if write.expected != head.seq - len(already) or (already and already[-1].seq != head.seq):
            raise errors.Conflict(stream=write.stream, expected=write.expected, actual=head.seq)

    def _check_org(self, write: Write, head: Head) -> str | None:
        org = head.org
        for given in sorted(write.orgs):
            if org is not None and given != org:
                raise errors.OrgMismatch(stream=write.stream, org=org, given=given)
            org = given
        return org

    def _lease(self, stream: str, trace: Trace) -> Lease | None:
        return trace.leases.get(stream) or self._total.leases.get(stream) or self._view.lease(stream)

    def _check_lease(self, stream: str, trace: Trace) -> None:
        lease = self._lease(stream, trace)
        held = self._holder.held.get(stream)
        mine = lease is not None and lease.owner == self._holder.owner
        if held is not None and (lease is None or not mine or lease.number != held):
            raise errors.LeaseLost(stream=stream, held=held, number=lease.number if lease else 0)
        if not mine:
            self._acquire(stream, trace)

    def _acquire(self, stream: str, trace: Trace, *, steal: bool = False) -> None:
        """Take the lease, whatever was held before. What was held stays so until the commit is durable."""
        lease = self._lease(stream, trace)
        if lease is not None and lease.owner == self._holder.owner:
            return
        if lease is not None and lease.owner is not None and not steal and not leases.is_dead(lease.owner):
            raise errors.LeaseHeld(stream=stream, owner=str(lease.owner), number=lease.number)
        trace.leases[stream] = Lease(stream, lease.number + 1 if lease else 1, self._holder.owner)

    def _release(self, stream: str, trace: Trace) -> None:
        lease = self._lease(stream, trace)
        if lease is not None and lease.owner == self._holder.owner:
            trace.leases[stream] = Lease(stream, lease.number, None)

    def _check_condition(self, condition: Condition, writes: list[Write]) -> None:
        """Refuse if more events match than were seen. What a retry finds stored of itself does not count.

        A whole retry confirms what is stored. Its condition is not asked again: its own events would fail it.
        """
        stored = [self._already_stored(write, Trace()) if write.ids_given else [] for write in writes]
        if writes and all(len(found) == len(write.drafts) for found, write in zip(stored, writes, strict=True)):
            return
        self._indexed += [subject(row[InRow.type], row[InRow.meta]) for row in self._total.rows[len(self._indexed) :]]
        if any(map(condition.matches, self._indexed)):  # whatever positions they get, they are after the marker
            raise refusal(condition, 0)
        own = {event.position for events in stored for event in events}
        if condition.beyond:  # it may have seen them
            own.clear()
        found = self._view.matches(condition, limit=condition.beyond + len(own) + 1)
        others = [position for position in found if position not in own]
        if len(others) > condition.beyond:
            raise refusal(condition, others[condition.beyond])

    def _check_new(self, key: CommandKey) -> None:
        if key in self._total.commands or self._view.command(key) is not None:
            raise errors.CommandRepeated(org=key.org, actor=key.actor, endpoint=key.endpoint, key=key.key)

    def _maintain(self, asked: Maintenance, trace: Trace) -> None:
        for cut in asked.cuts:
            self._check_cut(cut, trace)
            trace.cuts[cut.stream] = cut
        for erasure in asked.erasures:
            self._check_erasure(erasure)
            trace.erasures[erasure.id] = erasure
        trace.snapshots += asked.snapshots
        trace.dropped_snapshots += asked.dropped_snapshots
        trace.erased_responses += asked.erased_responses
        trace.dropped_rows += asked.dropped_rows

    def _check_cut(self, cut: Cut, trace: Trace) -> None:
        before = trace.cuts.get(cut.stream) or self._total.cuts.get(cut.stream) or self._view.cut(cut.stream)
        head, gone = self._head(cut.stream, trace), before.through if before else 0
        reason = None
        if names.is_reserved(cut.stream):
            reason = "control facts are never pruned"
        elif not gone < cut.through <= head.seq:
            reason = f"it is pruned up to seq {gone} and ends at {head.seq}"
        if reason is not None:
            raise errors.PruneRefused(stream=cut.stream, before=cut.through + 1, reason=reason)

    def _check_erasure(self, erasure: Erasure) -> None:
        event = self._view.find(erasure.id)
        reason = None
        if names.is_reserved(erasure.stream):
            reason = "control facts are never erased"
        elif event is None or (event.stream, event.seq, event.checksum) != (
            erasure.stream,
            erasure.seq,
            erasure.checksum,
        ):
            reason = "there is no such event"
        elif event.payload is None or erasure.id in self._total.erasures:
            reason = "it is erased already"
        if reason is not None:
            raise errors.EraseRefused(stream=erasure.stream, seq=erasure.seq, reason=reason)

    def _number_sources(self, write: Write, trace: Trace, already: int) -> list[Draft]:
        drafts = list(write.drafts)
        for mark in write.sources:
            if mark.index < already:  # it is stored and has its number
                continue
            last = trace.sources.get(mark.key) or self._total.sources.get(mark.key)
            if last is None:
                last = self._view.source_head(mark.org, mark.source)
            seq = last + 1 if mark.seq is None else mark.seq
            if seq <= last:
                raise errors.SourceRepeated(source=mark.source, last=last, given=seq)
            trace.sources[mark.key] = seq
            if mark.seq is None:
                drafts[mark.index] = _with_source_seq(drafts[mark.index], seq)
        return drafts


def only_writes(transaction: Transaction) -> bool:
    """Whether a transaction only appends."""
    return not (
        transaction.acquire
        or transaction.release
        or transaction.require
        or transaction.command is not None
        or transaction.maintenance is not None
        or transaction.unless is not None
    )


def _with_ranges(command: CommandRecord, done: list[Appended]) -> CommandRecord:
    ranges = tuple((item.stream, item.first_seq, item.last_seq) for item in done)
    places = tuple((item.first_position, item.last_position, item.link) for item in done)
    return msgspec.structs.replace(command, ranges=ranges, places=places)


def _with_source_seq(draft: Draft, seq: int) -> Draft:
    type_, version, id_, time, payload, meta, checksum, signature = draft
    meta = canonical.encode(canonical.decode(meta) | {"source_seq": seq}, what="meta")
    return (type_, version, id_, time, payload, meta, checksum, signature)
