"""The files engine: one writer, many readers, in one directory. See the package's first page for the invariants."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tallystick import errors
from tallystick.engines.damage_file import DamageFile
from tallystick.engines.files import check, frame, known_positions, opener, side
from tallystick.engines.files.change_signal import ChangeSignal, poll
from tallystick.engines.files.checked_frames import FrameEvents
from tallystick.engines.files.commands import FileCommands
from tallystick.engines.files.compressor import Compressor
from tallystick.engines.files.frame import Body, Frame
from tallystick.engines.files.heads import HeadCache
from tallystick.engines.files.reader import events_of
from tallystick.engines.files.reclaim import Reclaimer, brings_erasures
from tallystick.engines.files.segments import Segment, org_in
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.snapshots import FileSnapshots, brings_snapshots
from tallystick.engines.files.streams import StreamListing
from tallystick.engines.files.transfers import FilesReceiver
from tallystick.engines.files.view import LogView
from tallystick.engines.files.writer import SegmentWriter
from tallystick.engines.tables.side_tables import SideTables
from tallystick.event.model import Event, Row
from tallystick.store import capabilities, checked, leases
from tallystick.store.combining import Combiner, apart, by_bytes, commit_each
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import problem_of, with_known
from tallystick.store.events import PAGE_EVENTS, Problem, Report
from tallystick.store.filesystem import FULL
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, Reclaimed, require_history
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.transfer import Received


class FilesLog(SideTables, FilesReceiver):
    """A log of segment files."""

    engine = "files"
    capabilities = capabilities.ALL - {capabilities.RUN_TABLES}

    def __init__(
        self,
        directory: str,
        opened: opener.OpenedLog,
        *,
        readonly: bool,
        clock: Callable[[], int],
        segment_bytes_max: int,
        segment_age_ns_max: int,
        compress_bytes_min: int,
    ) -> None:
        header = opened.segments[-1].header
        self.url = f"files:{directory}"
        self.store_id = header.store_id
        self.profile = header.profile
        self.readonly = readonly
        files = opened.handles.files
        beside = f"{directory}/{known_positions.BESIDE}"
        SideTables.__init__(self, beside, is_moved=lambda: files.is_moved(directory), has_mark=True)
        self.damage = DamageFile(files, directory)
        self._clock = clock
        self._combiner = Combiner(self._commit)
        self._view = LogView(opened, url=self.url, readonly=readonly, lock=self._combiner.lock, damage=self.damage)
        self.snapshots = FileSnapshots(files, directory, self._view.lifecycle)
        self.commands = FileCommands(self._view, self._forget)
        self._holder = Holder()
        self._heads = HeadCache()
        self._listing = StreamListing(self._view)
        self._buffer = frame.FrameBuffer()
        self._changed = ChangeSignal()
        self._reclaimer = Reclaimer(self._view, self.commands, seal=self._seal, clock=clock)
        self._compressor = Compressor(self._reclaimer, compress_bytes_min, self._require_writer)
        self._writer: SegmentWriter | None = None
        if opened.mark_file is not None and opened.lock is not None:
            opened.recovered += self.snapshots.tidy()
            opened.recovered += self.quarantine_side_tables(f"{directory}/quarantine", time_ns=clock())
            self._writer = SegmentWriter(
                opened.handles,
                opened.segments[-1],
                opened.mark_file,
                opened.lock,
                clock=clock,
                segment_bytes_max=segment_bytes_max,
                segment_age_ns_max=segment_age_ns_max,
            )
            opened.recovered += self._reclaimer.finish_erasures()
            self._compressor.begin(self._view.segments[:-1])
            self.apply_noted_drops(self.read)

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        self._view.birthplace.require()
        for transaction in transactions:
            if transaction.maintenance is not None:
                return self._commit_with_maintenance(transactions)
        return self._combiner.commit(transactions)

    def _commit_with_maintenance(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        erases, keeps = brings_erasures(transactions), brings_snapshots(transactions)
        if erases or keeps:
            self._require_writer()
        if erases:
            self.note_drops(transactions)
        commit = self._combiner.commit
        outcomes = self.snapshots.around(transactions, commit) if keeps else commit(transactions)
        if erases:
            self._reclaimer.finish_erasures()
            self.apply_noted_drops(self.read, transactions)
        return outcomes

    def _commit(self, transactions: list[Transaction]) -> list[Outcome]:
        if len(transactions) == 1:
            return apart(self._commit_group, transactions)
        return commit_each(by_bytes(transactions), functools.partial(apart, self._commit_group))

    def _commit_group(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        writer = self._require_writer()
        ledger = Ledger(self, next_position=writer.current.next_position, holder=self._holder)
        outcomes: list[Outcome] = []
        for transaction in transactions:
            try:
                outcomes.append(ledger.judge(transaction))
            except errors.TallyError as refusal:
                outcomes.append(refusal)
        records = side.of_ledger(ledger, self.commands.load)
        if ledger.rows or records is not side.NOTHING:
            with self.projecting(ledger.rows):
                self._write(writer, ledger, records)
        return outcomes

    def _forget(self, digests: tuple[bytes, ...]) -> None:
        """Commit that these commands are forgotten."""
        writer = self._require_writer()
        if digests:
            nothing = Ledger(self, next_position=writer.current.next_position, holder=self._holder)
            self._write(writer, nothing, SideRecords(forgotten=digests))

    def _write(self, writer: SegmentWriter, ledger: Ledger | Received, records: SideRecords) -> None:
        """Make a commit durable, with everything that belongs to it, and tell those who wait."""
        try:
            if records.snapshots:
                self._publish(writer, records)
            self._store(writer, ledger, records)
            ledger.committed()
        except errors.NoSpace:
            self.snapshots.withdraw(records.snapshots)
            raise
        except errors.TallyError:
            raise
        except BaseException as interruption:  # Ctrl-C in the middle: what is on disk is for recovery to say
            writer.poison("an interrupted append", interruption)
            raise
        if records.dropped:
            self.snapshots.remove(records.dropped)
        self._changed.notify()

    def _publish(self, writer: SegmentWriter, records: SideRecords) -> None:
        try:
            self.snapshots.publish(records.snapshots)
        except OSError as problem:
            if problem.errno in FULL:
                raise errors.NoSpace(needed=0, path=self._view.opened.handles.directory) from problem
            raise writer.poison("a snapshot's file", problem) from problem

    def _store(self, writer: SegmentWriter, ledger: Ledger | Received, records: SideRecords) -> None:
        count = len(ledger.rows) if isinstance(ledger, Ledger) else ledger.until - ledger.after
        offset, end = self._append(writer, records, ledger.rows, count)
        current = writer.current
        written = Frame(offset, end, current.next_position, current.next_position + count)
        current.index_frame(written, ledger.rows, ledger.heads, ledger.sources, records)
        self._heads.put(ledger.heads)

    def _append(self, writer: SegmentWriter, records: SideRecords, rows: list[Row], count: int) -> tuple[int, int]:
        """Write one frame that covers so many positions; returns its offset and its end."""
        position = writer.current.next_position
        known: dict[str, Any] = {"recorded": self._clock(), "side": side.encode(records), "count": count}

        def framed(item: Segment) -> bytearray:
            at = (item.identity, item.end, position)
            return self._buffer.encode(*at, rows, short=item.header.short_frames, **known)

        if writer.is_due(len(data := framed(writer.current))) and self._seal():
            data = framed(writer.current)
        offset = writer.append(data, next_position=position + count)
        return offset, offset + len(data)

    def _seal(self) -> bool:
        writer = self._require_writer()
        sealed, begun = writer.current, writer.seal()
        if begun is not None:  # it may have to wait
            begun.org_before = functools.partial(org_in, self._view.segments)
            self._view.begin(begun)
            sealed.load_index()
            self._compressor.begin([sealed])
        return begun is not None

    def _require_writer(self) -> SegmentWriter:
        self._view.birthplace.require()
        if self._view.closed:
            raise errors.StoreClosed()
        self._view.require_no_hole()
        if self._writer is None:
            raise errors.ReadOnly(reason=f"{self.url} was opened for reading")
        if self._writer.poisoned is not None:
            raise errors.StoreFailed(**self._writer.poisoned.values)
        self.damage.require_none()
        return self._writer

    # --- what the ledger asks --------------------------------------------------------------------------------------

    def stream_head(self, stream: str) -> Head | None:
        self._view.birthplace.require()
        head = self._heads.get(stream)  # only a writer puts heads there
        if head is None or self._view.closed:
            self._view.refresh()
            head = self._view.stream_head(stream)
            self._view.require_end(stream, head)
        return head

    def source_head(self, org: str, source: str) -> int:
        return self._view.search(lambda item: item.source(org, source)) or 0

    def lease(self, stream: str) -> leases.Lease | None:
        """The latest lease. While this process holds the writer's lock, no other owner can be alive."""
        lease = self._view.search(lambda item: item.lease(stream))
        if lease is None or lease.owner == self._holder.owner:
            return lease
        return leases.Lease(stream, lease.number, None)

    def cut(self, stream: str) -> Cut | None:
        return self._view.lifecycle().cuts.get(stream)

    def pruned(self, id: bytes) -> bool:
        life = self._view.lifecycle()
        if not life.cuts and not life.losses:
            return False
        return self._view.retry_on_swap(lambda: self._view.reader.pruned(self._view.segments, id))

    def command(self, key: CommandKey) -> CommandRecord | None:
        return self.commands.load(key)

    # --- reading ---------------------------------------------------------------------------------------------------

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
        page, parts = self._read(after, until, selection, limit, over_holes, over_pruned)
        if unchecked:
            return page
        return self._view.checked_page(page, parts, after=after, over_holes=over_holes)

    def _read(
        self, after: int, until: int | None, selection: Selection, limit: int, over_holes: bool, over_pruned: bool
    ) -> tuple[Page, list[FrameEvents]]:
        head = self.head()
        end = head if until is None else min(until, head)
        if after >= end:
            self._view.require_known_end(after)
            return Page([], after), []
        self._view.require_positions(selection, after=after, over_pruned=over_pruned)
        found = self._view.retry_on_swap(
            lambda: self._view.reader.page(
                self._view.segments, after=after, end=end, selection=selection, limit=limit, over_holes=over_holes
            )
        )
        self._view.require_positions(selection, after=after, over_pruned=over_pruned)  # it may be pruned by now
        return found

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        require_history(self.cut(stream), after=after)
        parts = self._view.retry_on_swap(
            lambda: self._view.reader.stream(self._view.segments, stream, after=after, until=until, limit=limit)
        )
        found = events_of(parts)
        require_history(self._view.life.cuts.get(stream), after=after)  # it may have been pruned meanwhile
        self._view.require_whole(stream, found, after=after, until=until, limit=limit)
        self._view.require_sound(parts, after=after)
        return found

    def find(self, id: bytes) -> Event | None:
        self._view.refresh()
        found = self._view.retry_on_swap(lambda: self._view.reader.find(self._view.segments, id))
        if found is None:
            self._view.require_all_indexed()
        return checked.event(self.damage, found, self._view, hashed=True)

    def bodies(self, *, after: int, until: int) -> Iterator[tuple[int, Body | Hole]]:
        """The frames between two positions as they are stored, each with its last position."""
        return self._view.reader.bodies(self._view.segments, after=after, end=until)

    def head(self) -> int:
        """The last position that something knows of: a hole at the end counts, so that it is not taken for the end."""
        self._view.refresh()
        return max([self._view.segments[-1].next_position - 1, *(hole.last for hole in self._view.holes)])

    def floor(self) -> int:
        return self._view.lifecycle().floor

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        cuts = self._view.lifecycle().cuts
        return [cuts[name] for name in sorted(name for name in list(cuts) if name > after)[:limit]]

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        return self._listing.page(after, limit)

    def recorded_at(self, position: int) -> int | None:
        if not 1 <= position <= self.head():
            return None
        return self._view.retry_on_swap(lambda: self._view.reader.recorded(self._view.segments, position))

    def wait(self, after: int, *, timeout: float) -> int:
        if self.readonly:
            return poll(self.head, after, timeout)
        self._changed.wait_for(lambda: self._view.closed or self.head() > after, timeout)
        return self.head()

    # --- state -----------------------------------------------------------------------------------------------------

    def holes(self) -> list[Hole]:
        return list(self._view.holes)

    def losses(self) -> list[Loss]:
        return list(self._view.lifecycle().losses)

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        self._view.refresh()
        yield from self._view.check(progress)

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        self._require_writer()
        return self._reclaimer.reclaim(compress_before=compress_before, progress=progress)

    def report(self) -> Report:
        self._view.refresh()
        facts = self._view.facts(writing=self._writer is not None)
        facts |= check.upkeep_facts(self._view.life, self.snapshots, self._compressor.problem, self._writer)
        found = with_known(list(map(problem_of, self._view.holes)), self.damage.known())
        if self._writer is not None and self._writer.poisoned is not None:
            found.append(Problem("writer", self._writer.poisoned.message))
        found += self._reclaimer.problems()
        return Report(self.engine, facts, (*self._view.opened.recovered, *self.lost_side_writes()), tuple(found))

    def close(self) -> None:
        if not self._view.birthplace.is_current:  # a forked child: its parent may hold the locks
            self._view.closed = True
            return
        self._reclaimer.is_ending = True
        with self._reclaimer.lock, self._combiner.lock:
            if self._view.closed:
                return
            self._leave()
            leases.retire(self._holder.owner)
            self.close_side_tables()
            self._view.close()
        self._changed.notify()

    def _leave(self) -> None:
        """Give leases back, and end the writing."""
        writer = self._writer
        if writer is None:
            return
        healthy = writer.poisoned is None and not self._view.holes
        if healthy and self._holder.held:
            with contextlib.suppress(errors.TallyError, OSError):  # nothing is lost: the next opening finds them
                self._commit([Transaction([], release=tuple(self._holder.held))])
        writer.close(clean=healthy)
