"""The files engine: one writer, many readers, in one directory. See the package's first page for the invariants."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

from tallystick import errors
from tallystick.engines.damage_file import DamageFile
from tallystick.engines.files import inspection, known_positions, opener, side, tag_queries
from tallystick.engines.files.change_signal import ChangeSignal, poll
from tallystick.engines.files.commands import FileCommands
from tallystick.engines.files.compressor import Compressor
from tallystick.engines.files.queries import FileQueries
from tallystick.engines.files.reclaim import Reclaimer, has_erasures
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.snapshots import FileSnapshots, has_snapshots
from tallystick.engines.files.view import LogView
from tallystick.engines.files.writer import SegmentWriter
from tallystick.engines.tables.side_tables import SideTables
from tallystick.store import capabilities, consult, leases, transfer
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import problem_of, with_known
from tallystick.store.events import Consulted, Problem, Report
from tallystick.store.filesystem import FULL
from tallystick.store.group_commit import Combiner, in_groups
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.maintenance import Reclaimed
from tallystick.store.query import Condition, Query
from tallystick.store.transfer import Received, Transfer

HEADS_MAX = 1 << 16


class FilesLog(FileQueries, SideTables):
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
        damage = DamageFile(files, directory)
        self._combiner = Combiner(functools.partial(in_groups, self._commit))
        view = LogView(opened, url=self.url, readonly=readonly, lock=self._combiner.lock, damage=damage)
        FileQueries.__init__(self, view, damage)
        SideTables.__init__(self, beside, is_moved=functools.partial(files.is_moved, directory), has_mark=True)
        self.snapshots = FileSnapshots(files, directory, view.lifecycle)
        self.commands = FileCommands(view, self._forget)
        self._holder = Holder()
        self._changed = ChangeSignal()
        self._reclaimer = Reclaimer(view, self.commands, seal=self._seal, clock=clock)
        self._compressor = Compressor(self._reclaimer, compress_bytes_min, self._require_writer)
        self._writer: SegmentWriter | None = None
        if opened.mark_file is not None and opened.lock is not None:
            opened.handles.writes = True
            opened.recovered += self.snapshots.remove_orphans()
            opened.recovered += self.quarantine_side_tables(f"{directory}/quarantine", time_ns=clock())
            self._writer = SegmentWriter(
                view,
                opened.mark_file,
                opened.lock,
                clock=clock,
                segment_bytes_max=segment_bytes_max,
                segment_age_ns_max=segment_age_ns_max,
                on_sealed=self._compressor.begin_one,
            )
            opened.recovered += self._reclaimer.finish_erasures()
            self._compressor.begin(view.segments[:-1])
            self.apply_noted_drops(self.read)

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        self._view.process.require()
        for transaction in transactions:
            if transaction.maintenance is not None:
                return self._commit_with_maintenance(transactions)
        return self._combiner.commit(transactions)

    def _commit_with_maintenance(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        erases, keeps = has_erasures(transactions), has_snapshots(transactions)
        if erases or keeps:
            self._require_writer()
        if erases:
            self.note_drops(transactions)
        commit = self._combiner.commit
        outcomes = self.snapshots.commit_with_files(transactions, commit) if keeps else commit(transactions)
        if erases:
            self._reclaimer.finish_erasures()
            self.apply_noted_drops(self.read, transactions)
        return outcomes

    def _commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        writer = self._require_writer()
        ledger = Ledger(self, next_position=writer.next_position, holder=self._holder)
        outcomes = ledger.judge_each(transactions)
        records = side.NOTHING if ledger.only_appends else side.of_ledger(ledger, self.commands.load)
        if ledger.rows or records is not side.NOTHING:
            with self.projecting(ledger.rows):
                self._write(writer, ledger, records)
        return outcomes

    def receive(self, part: Transfer) -> None:
        self._view.process.require()
        with self._combiner.lock:
            writer = self._require_writer()
            received = transfer.judge(self, part, head=writer.next_position - 1)
            self._write(writer, received, side.of_received(received))

    def _forget(self, digests: tuple[bytes, ...]) -> None:
        """Commit that these commands are forgotten."""
        writer = self._require_writer()
        if digests:
            nothing = Ledger(self, next_position=writer.next_position, holder=self._holder)
            self._write(writer, nothing, SideRecords(forgotten=digests))

    def _write(self, writer: SegmentWriter, ledger: Ledger | Received, records: SideRecords) -> None:
        """Make a commit durable, with the snapshots that belong to it, and wake the threads that wait for it."""
        try:
            if records.snapshots:
                self._publish(writer, records)
            count = len(ledger.rows) if isinstance(ledger, Ledger) else ledger.until - ledger.after
            writer.append(ledger.rows, ledger.heads, ledger.sources, records, count=count)
            self._note_heads(ledger.heads)
            if records.leases:
                ledger.committed()
        except errors.NoSpace:
            self.snapshots.withdraw(records.snapshots)
            raise
        except errors.TallyError:
            raise
        except BaseException as interruption:  # Ctrl-C in the middle: only recovery can say what is on disk
            writer.poison("an interrupted append", interruption)
            raise
        if records.dropped:
            self.snapshots.remove(records.dropped)
        self._changed.notify()

    def _note_heads(self, heads: dict[str, Head]) -> None:
        """Remember the ends of streams that were just written to. The oldest entries are forgotten."""
        self._heads |= heads
        while len(self._heads) > HEADS_MAX:
            del self._heads[next(iter(self._heads))]

    def _publish(self, writer: SegmentWriter, records: SideRecords) -> None:
        try:
            self.snapshots.publish(records.snapshots)
        except OSError as problem:
            if problem.errno in FULL:
                raise errors.NoSpace(needed=0, path=self._view.handles.directory) from problem
            raise writer.poison("a snapshot's file", problem) from problem

    def _seal(self) -> bool:
        return self._require_writer().seal()

    def _require_writer(self) -> SegmentWriter:
        if self._view.closed:
            raise errors.StoreClosed()
        for hole in self._view.holes:
            raise hole.refusal
        if self._writer is None:
            raise errors.ReadOnly(reason=f"{self.url} was opened for reading")
        if self._writer.poisoned is not None:
            raise errors.StoreFailed(**self._writer.poisoned.values)
        self.damage.require_none()
        return self._writer

    # --- what the ledger asks --------------------------------------------------------------------------------------

    def source_head(self, org: str, source: str) -> int:
        return self._newest(lambda item: item.source(org, source)) or 0

    def lease(self, stream: str) -> leases.Lease | None:
        """The latest lease. While this process holds the writer's lock, no other owner can be alive."""
        lease = self._newest(lambda item: item.lease(stream))
        if lease is None or lease.owner == self._holder.owner:
            return lease
        return leases.Lease(stream, lease.number, None)

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        return tag_queries.matches(self._view, condition, limit=limit)

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        return consult.consult(self, query, after=after, org=org, over_pruned=over_pruned)

    def command(self, key: CommandKey) -> CommandRecord | None:
        return self.commands.load(key)

    # --- state -----------------------------------------------------------------------------------------------------

    def wait(self, after: int, *, timeout: float) -> int:
        if self.readonly:
            return poll(self.head, after, timeout)
        self._changed.wait_for(lambda: self._view.closed or self.head() > after, timeout)
        return self.head()

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        self._view.refresh()
        yield from inspection.problems(self._view, progress)

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        self._view.process.require()
        self._require_writer()
        return self._reclaimer.reclaim(compress_before=compress_before, progress=progress)

    def report(self) -> Report:
        self._view.refresh()
        facts = inspection.facts(self._view, writing=self._writer is not None)
        facts |= inspection.upkeep_facts(self._view.life, self.snapshots, self._compressor.problem, self._writer)
        found = with_known(list(map(problem_of, self._view.holes)), self.damage.known())
        if self._writer is not None and self._writer.poisoned is not None:
            found.append(Problem("writer", self._writer.poisoned.message))
        found += self._reclaimer.problems()
        return Report(self.engine, facts, (*self._view.opened.recovered, *self.lost_side_writes()), tuple(found))

    def close(self) -> None:
        if not self._view.process.is_current:  # a forked child owns nothing of it, and its locks may be held
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
        """Give leases back, and close the writer."""
        writer = self._writer
        if writer is None:
            return
        healthy = writer.poisoned is None and not self._view.holes
        if healthy and self._holder.held:
            with contextlib.suppress(errors.TallyError, OSError):  # the next opening takes them over
                self._commit([Transaction([], release=tuple(self._holder.held))])
        writer.close(clean=healthy)
