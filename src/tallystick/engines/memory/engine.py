"""The log in memory: the model that every other engine is tested against. Nothing is durable."""

from __future__ import annotations

import bisect
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tallystick import errors
from tallystick.engines.memory.side_tables import (
    MemoryCheckpoints,
    MemoryCommands,
    MemoryDeadLetters,
    MemorySnapshots,
    MemoryViews,
)
from tallystick.engines.tables.view_tables import MemoryDatabase, SqliteTables
from tallystick.event.model import Event, InRow
from tallystick.store import capabilities, checked, consult, leases, transfer
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import MemoryDamage
from tallystick.store.events import PAGE_EVENTS, Consulted, Problem, Report
from tallystick.store.group_commit import commit_or_split
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.ledger import Head, Holder, Ledger, Source
from tallystick.store.loss import Loss
from tallystick.store.maintenance import (
    Cut,
    Erasure,
    Maintenance,
    PrunedEvent,
    Reclaimed,
    before_cut,
    kept_of,
    require_history,
    require_positions,
)
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.query import Condition, Query, subject
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.transfer import Transfer
from tallystick.store.views import Inline


class MemoryLog:
    """Events in a list: position n is item n - 1, None if it was pruned."""

    engine = "memory"
    capabilities = capabilities.ALL - {capabilities.DURABLE, capabilities.RUN_TABLES}
    run_documents: RunDocuments | None = None
    run_tables: RunTables | None = None

    def __init__(self, *, profile: str, clock: Callable[[], int], url: str = "memory:") -> None:
        self.url = url
        self.profile = profile
        self.readonly = False
        self.store_id = secrets.token_bytes(16)
        self.checkpoints = MemoryCheckpoints()
        self.snapshots = MemorySnapshots()
        self.commands = MemoryCommands()
        self.views = MemoryViews()
        self.view_tables = SqliteTables(MemoryDatabase())
        self.dead_letters = MemoryDeadLetters()
        self.damage = MemoryDamage()
        self.inline: Inline | None = None
        self._clock = clock
        self._changed = threading.Condition()
        self._holder = Holder()
        self._events: list[Event | None] = []
        self._recorded: list[int] = []
        self._by_id: dict[bytes, Event] = {}
        self._streams: dict[str, list[Event]] = {}
        self._heads: dict[str, Head] = {}
        self._sources: dict[Source, int] = {}
        self._leases: dict[str, leases.Lease] = {}
        self._cuts: dict[str, Cut] = {}
        self._pruned: dict[bytes, PrunedEvent] = {}
        self._erased: set[int] = set()
        self._announced = 0
        self._floor = 0
        self._head = 0
        self._closed = False

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        return commit_or_split(self._commit, transactions)

    def _commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        with self._changed:
            self._require_open()
            self.damage.require_none()
            ledger = Ledger(self, next_position=len(self._events) + 1, holder=self._holder)
            outcomes = ledger.judge_each(transactions)
            store_rows = self.inline.prepare(ledger.rows, self.views) if self.inline and ledger.rows else None
            self._store(ledger)
            if store_rows is not None:
                store_rows(self.views)
            for projection, key in ledger.maintenance.dropped_rows if ledger.maintenance else ():
                self.views.drop(projection, [key])
            self._changed.notify_all()
            return outcomes

    def _store(self, ledger: Ledger) -> None:
        now = self._clock()
        for row in ledger.rows:
            self._add(Event(*row), now)
        self._heads |= ledger.heads
        self._sources |= ledger.sources
        self._leases |= {lease.stream: lease for lease in ledger.leases}
        self.commands.records |= {record.key: record for record in ledger.commands}
        if ledger.maintenance is not None:
            self._maintain(ledger.maintenance)
        self._head = len(self._events)  # last, so that a reader sees all of a commit or nothing
        ledger.committed()

    def receive(self, part: Transfer) -> None:
        with self._changed:
            self._require_open()
            self.damage.require_none()
            received = transfer.judge(self, part, head=len(self._events))
            self._cuts |= {founding.cut.stream: founding.cut for founding in received.cuts}
            self._streams |= {founding.cut.stream: [] for founding in received.cuts}
            self._floor = max([self._floor, *(founding.cut.last_position for founding in received.cuts)])
            self._pruned |= {gone.id: gone for gone in received.pruned}
            now = self._clock()
            for row in received.rows:
                unused = row[InRow.position] - 1 - len(self._events)
                self._events += [None] * unused
                self._recorded += [0] * unused
                self._add(Event(*row), now)
            self._heads |= received.heads
            self._sources |= received.sources
            self._erased |= {erasure.position for erasure, _ in received.erasures}
            self._announced = max(self._announced, received.announced)
            self._head = len(self._events)
            self._changed.notify_all()

    def announced(self) -> int:
        return self._announced

    def pruned_events(self) -> Iterator[PrunedEvent]:
        return iter(sorted(self._pruned.values()))

    def _add(self, event: Event, recorded: int) -> None:
        self._events.append(event)
        self._recorded.append(recorded)
        self._by_id[event.id] = event
        self._streams.setdefault(event.stream, []).append(event)

    def _maintain(self, asked: Maintenance) -> None:
        for cut in asked.cuts:
            self._prune(cut)
        for erasure in asked.erasures:
            self._erase(erasure)
        self.snapshots.bodies |= {snapshot.id: snapshot.body for snapshot in asked.snapshots}
        for id_ in asked.dropped_snapshots:
            self.snapshots.bodies.pop(id_, None)
        for key in asked.erased_responses:
            self.commands.erase_response(key)

    def _prune(self, cut: Cut) -> None:
        kept = self._streams[cut.stream]
        for event in [event for event in kept if event.seq <= cut.through]:
            self._events[event.position - 1] = None
            self._pruned[event.id] = kept_of(event)
            del self._by_id[event.id]
        self._streams[cut.stream] = [event for event in kept if event.seq > cut.through]
        self._cuts[cut.stream] = cut
        self._floor = max(self._floor, cut.last_position)

    def _erase(self, erasure: Erasure) -> None:
        event = msgspec.structs.replace(self._by_id[erasure.id], payload=None)
        self._erased.add(event.position)
        self._by_id[event.id] = event
        self._events[event.position - 1] = event
        stream = self._streams[event.stream]
        stream[event.seq - stream[0].seq] = event

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
        page = self._read(after, until, selection, limit, over_pruned)
        if unchecked:
            return page
        gapless = selection.is_everything
        return checked.page(self.damage, page, self, after=after, over_holes=over_holes, gapless=gapless)

    def _read(self, after: int, until: int | None, selection: Selection, limit: int, over_pruned: bool) -> Page:
        end = self.head() if until is None else min(until, self.head())
        with self._changed:  # an event that is pruned meanwhile must not be missing silently
            if not over_pruned and after < end:
                cuts = {name: self._cuts[name] for name in selection.streams if name in self._cuts}
                require_positions(selection, cuts, self._floor, after=after)
            window = self._events[after:end]
        wanted, found = selection.predicate(), []
        for event in window:
            if event is not None and wanted(event):
                found.append(event)
                if len(found) == limit:
                    return Page(found, event.position)
        return Page(found, max(after, end))

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        self._require_open()
        with self._changed:
            cut = self._cuts.get(stream)
            require_history(cut, after=after)
            gone, _ = before_cut(cut)
            end = after + limit if until is None else min(until, after + limit)
            found = self._streams.get(stream, [])[after - gone : max(end - gone, 0)]
        events = [event for event in found if event.position <= self._head]
        return checked.stream(self.damage, events, self, after=after)

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        return consult.consult(self, query, after=after, org=org, over_pruned=over_pruned)

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        gone = [each.position for each in list(self._pruned.values()) if consult.may_match(condition, each)]
        window = self._events[condition.after :]
        left = [event.position for event in window if event and condition.matches(subject(event.type, event.meta))]
        return sorted(gone + left)[:limit]

    def find(self, id: bytes) -> Event | None:
        return checked.event(self.damage, self._by_id.get(id), self)

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        return [self._link_before(event) for event in events]

    def _link_before(self, event: Event) -> bytes | None:
        gone, link = before_cut(self._cuts.get(event.stream))
        if event.seq == gone + 1:
            return link
        kept = self._streams.get(event.stream, [])
        at = event.seq - gone - 2
        return kept[at].link if 0 <= at < len(kept) else None

    def erased(self, positions: Sequence[int]) -> set[int]:
        return self._erased.intersection(positions)

    def head(self) -> int:
        self._require_open()
        return self._head

    def floor(self) -> int:
        return self._floor

    def cut(self, stream: str) -> Cut | None:
        return self._cuts.get(stream)

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        return [self._cuts[name] for name in sorted(self._cuts) if name > after][:limit]

    def pruned(self, id: bytes) -> bool:
        return id in self._pruned

    def command(self, key: CommandKey) -> CommandRecord | None:
        return self.commands.load(key)

    def stream_head(self, stream: str) -> Head | None:
        return self._heads.get(stream)

    def source_head(self, org: str, source: str) -> int:
        return self._sources.get((org, source), 0)

    def lease(self, stream: str) -> leases.Lease | None:
        return self._leases.get(stream)

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        names = sorted(self._heads)
        chosen = names[bisect.bisect_right(names, after) :][:limit]
        return [
            StreamInfo(name, self._heads[name].seq, self._heads[name].link, self._heads[name].org) for name in chosen
        ]

    def recorded_at(self, position: int) -> int | None:
        known = 1 <= position <= len(self._recorded) and self._events[position - 1] is not None
        return self._recorded[position - 1] if known else None

    def wait(self, after: int, *, timeout: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._head > after or self._closed, timeout)
            return self._head

    def holes(self) -> list[Hole]:
        return []

    def losses(self) -> list[Loss]:
        return []

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        return iter(())

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        return Reclaimed((), 0, 0)

    def report(self) -> Report:
        left = [event for event in self._events if event is not None]
        size = sum(len(event.payload or b"") + len(event.meta) for event in left)
        facts = {"events": len(left), "streams": len(self._heads), "log_bytes": size}
        return Report(self.engine, facts, problems=tuple(self.damage.known()))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            leases.retire(self._holder.owner)
            self._changed.notify_all()

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StoreClosed()


def open_memory(url: str, *, readonly: bool, create: bool, profile: str | None, clock: Callable[[], int]) -> MemoryLog:
    """A new, empty log, whatever the rest of the URL is. It can be written even if `readonly` is asked for."""
    return MemoryLog(profile=profile or "plain", clock=clock)
