"""The log in a SQLite file, with the tables of `sql/schema/`. Many processes may write and read it at once.

Invariants: a commit is judged and written inside one immediate transaction, so nothing changes between the two; an
outcome is returned after COMMIT; a reader sees one state of the log per page and never waits for the writer; prunes and
erasures have a connection of their own, and the appending one can do neither.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from tallystick import errors
from tallystick.engines.damage_file import DamageFile
from tallystick.engines.disk import Disk
from tallystick.engines.sqlite import commit_rows, inspection, mark, queries, statements, survey
from tallystick.engines.sqlite.commands import SqliteCommands
from tallystick.engines.sqlite.databases import OutdatedDatabase, database_of, page_bounds, wait_for_head
from tallystick.engines.sqlite.reclaim import SqliteReclaimer
from tallystick.engines.sqlite.rows import events_of, structs_of
from tallystick.engines.sqlite.run_tables import SqliteRunTables
from tallystick.engines.sqlite.snapshots import SqliteSnapshots
from tallystick.engines.sqlite.store_file import OpenedStore, StoreFile
from tallystick.engines.sqlite.transfers import SqliteReceiver
from tallystick.engines.sqlite.view import SqliteEvidence, SqliteView, StreamEnd
from tallystick.engines.tables import schema
from tallystick.engines.tables.connection import BUSY_MS
from tallystick.engines.tables.consumers import SqliteCheckpoints, SqliteDeadLetters
from tallystick.engines.tables.database import Database
from tallystick.engines.tables.lazy_database import LazyDatabase
from tallystick.engines.tables.view_tables import SqliteTables
from tallystick.engines.tables.views import OpenTransaction, SqliteViews
from tallystick.event import limits
from tallystick.event.model import Event, InRow
from tallystick.store import capabilities, checked, leases
from tallystick.store.checkpoints import Checkpoints
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import problem_of, put_on_record, with_known
from tallystick.store.events import PAGE_EVENTS, Problem, Report
from tallystick.store.group_commit import commit_or_split
from tallystick.store.idempotency import CommandRecords
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, Reclaimed, require_history, require_positions
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.query import Condition
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.snapshots import Snapshots
from tallystick.store.summary_sql import SummaryQuery
from tallystick.store.views import Inline

_BUSY_MS_MAX = 3_600_000


def open_sqlite(
    place: str,
    *,
    readonly: bool,
    create: bool,
    profile: str | None,
    clock: Callable[[], int],
    busy_ms: int = BUSY_MS,
) -> SqliteLog:
    """Open the log in the file `place`. `busy_ms` bounds how long a commit waits for other processes."""
    if type(busy_ms) is not int or not 0 <= busy_ms <= _BUSY_MS_MAX:
        raise errors.InvalidValue(what="busy_ms", value=busy_ms, must=f"from 0 to {_BUSY_MS_MAX}")
    file = StoreFile(place, profile=profile, clock=clock, busy_ms=busy_ms)
    opened = file.open_reading() if readonly else file.open_writing(create=create)
    return SqliteLog(file.url, opened, readonly=readonly, clock=clock, busy_ms=busy_ms)


class SqliteLog(SqliteReceiver):
    """An event log in SQLite. Made by `open_sqlite`."""

    engine = "sqlite"
    capabilities = capabilities.ALL
    run_documents: RunDocuments | None = None

    def __init__(
        self, url: str, opened: OpenedStore, *, readonly: bool, clock: Callable[[], int], busy_ms: int
    ) -> None:
        self.url = url
        self.store_id = opened.store_id
        self.profile = opened.profile
        self.readonly = readonly  # as requested; a damaged log refuses appends with `Damaged` and its range
        self._opened = opened
        self._database = database_of(opened, url, busy_ms)
        tables: Database = self._database
        if opened.inspected.is_cut:
            tables = OutdatedDatabase(opened.path, reason=opened.inspected.damage or "", busy_ms=busy_ms)
        self.damage = DamageFile(Disk(), os.path.dirname(opened.path), f"{os.path.basename(opened.path)}.damage")
        self._database.record = self.damage
        self.checkpoints: Checkpoints = SqliteCheckpoints(tables)
        self.views = SqliteViews(tables)
        self.dead_letters = SqliteDeadLetters(tables)
        self._projection_tables = LazyDatabase(
            f"{opened.path}.views", schema.VIEWS
        )  # a store refuses other tables than its own
        self.view_tables = SqliteTables(self._projection_tables)
        self.inline: Inline | None = None
        self.run_tables: RunTables | None = SqliteRunTables(tables)
        self.snapshots: Snapshots = SqliteSnapshots(self._database)
        self.commands: CommandRecords = SqliteCommands(tables)
        self._reclaiming = SqliteReclaimer(self._database, clock=clock)
        self._evidence = SqliteEvidence(self._database, self._is_whole)
        self._clock = clock
        self._recovered = opened.recovered
        self._holes: list[Hole] = []
        self._lost = opened.inspected.lost
        self._seen = 0  # the highest head that was read
        self._changed = threading.Condition()
        self._closed = False
        self._holder = None if opened.writer is None else Holder()
        try:
            if opened.inspected.damage is not None:
                self._survey(opened.inspected.damage)
            if self._holder is not None:
                self._enter(self._holder.owner)
        except BaseException:
            self.close()
            raise

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        return commit_or_split(self._commit, transactions)

    def _commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        holder = self._require_writable()
        ledger: Ledger | None = None
        maintains = any(transaction.maintenance is not None for transaction in transactions)
        begin = self._database.maintaining if maintains else self._database.writing
        with begin(needed_bytes=lambda: commit_rows.size_of(ledger)) as connection:
            view = SqliteView(connection)
            ledger = Ledger(view, next_position=view.head() + 1, holder=holder)
            outcomes = ledger.judge_each(transactions)
            commit_rows.write(connection, ledger, recorded=self._clock())
            if self.inline is not None and ledger.rows:
                views = SqliteViews(OpenTransaction(connection), self.views.seen)
                self.inline.prepare(ledger.rows, views)(views)
        ledger.committed()
        if ledger.rows:
            self._note(ledger.rows[-1][InRow.position])
        with self._changed:
            self._changed.notify_all()
        if maintains:
            self._reclaiming.after_commit(ledger.maintenance)
        return outcomes

    def _note(self, head: int) -> None:
        """Note in the mark how far the log is on disk, before a commit is acknowledged."""
        assert self._opened.locks is not None
        try:
            self._opened.locks.mark.advance(self.store_id, head)
        except OSError as problem:  # the events are durable: a retry needs their ids
            raise errors.StoreFailed(operation="writing the mark", reason=str(problem)) from problem

    def _require_writable(self) -> Holder:
        if self._closed:
            raise errors.StoreClosed()
        if self._holes:
            hole = self._holes[0]
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
        if self._holder is None:
            raise errors.ReadOnly(reason=self._database.readonly_reason)
        self.damage.require_none()
        return self._holder

    def _enter(self, owner: leases.Owner) -> None:
        """Record that this handle is open, and forget those whose process is gone."""
        with suppress(errors.NoSpace), self._database.writing() as connection:
            rows = connection.execute(statements.named("list_writers")).fetchall()
            dead = [row[3:] for row in rows if leases.is_dead(leases.Owner(*row))]
            connection.executemany(statements.named("leave_writer"), dead)
            entry = (owner.host, owner.pid, owner.started, owner.handle, self._clock())
            connection.execute(statements.named("enter_writer"), entry)

    def _leave(self, holder: Holder) -> None:
        """Give the leases back, and record that this handle closed."""
        with self._database.writing() as connection:
            ledger = Ledger(SqliteView(connection), next_position=0, holder=holder)
            ledger.judge(Transaction([], release=tuple(holder.held)))
            commit_rows.write(connection, ledger, recorded=0)
            connection.execute(statements.named("leave_writer"), (holder.owner.handle,))
        ledger.committed()

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
        try:
            page = self._read(after, until, selection, limit, over_holes, over_pruned)
        except errors.Damaged as damage:
            if self._holes:
                raise
            self._survey(damage.reason)
            page = self._read(after, until, selection, limit, over_holes, over_pruned)
        if unchecked:
            return page
        gapless = selection.is_everything and not over_holes
        return checked.page(self.damage, page, self._evidence, after=after, over_holes=over_holes, gapless=gapless)

    def _read(
        self, after: int, until: int | None, selection: Selection, limit: int, over_holes: bool, over_pruned: bool
    ) -> Page:
        seen = self._seen
        with self._database.snapshot() as connection:
            view = SqliteView(connection)
            head = self._end(view.head(), seen)
            end = head if until is None else min(until, head)
            if not over_pruned and after < end:
                cuts = {stream: cut for stream in selection.streams if (cut := view.cut(stream)) is not None}
                require_positions(selection, cuts, view.floor(), after=after)
            start, end, crossed = page_bounds(self._holes, after, end, over_holes)
            if start >= end:
                return Page([], start, crossed)
            events = queries.page(connection, selection, first=start + 1, until=end, limit=limit)
            through = events[-1].position if len(events) == limit else end
            if selection == EVERYTHING and len(events) < through - start and not self._holes:
                survey.require_all(connection, first=start + 1, last=through, count=len(events))
        return Page(events, through, crossed)

    def summed(self, asked: SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
        for hole in self._holes:
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
        self._require_end()
        with self._database.snapshot() as connection:
            return queries.summed(connection, asked, until=until)

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        upto = limits.INT_MAX if until is None else until
        values = {"stream": stream, "after": after, "until": upto, "limit": limit}
        with self._database.reading() as connection:
            end = StreamEnd(connection, stream)  # before the events are read, so that they reach it
            events = events_of(connection.execute(statements.named("read_stream"), values))
        if not events or events[0].seq > after + 1:  # the next event exists unless it was pruned, or never recorded
            require_history(self.cut(stream), after=after)
        if len(events) < min(upto, after + limit) - after:
            end.require(after + len(events), upto)
            self._require_end()
        for hole in self._holes:
            if any(hole.first <= event.position <= hole.last for event in events):
                raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
        return checked.stream(self.damage, events, self._evidence, after=after)

    def matches(self, condition: Condition, *, limit: int) -> list[int]:
        with self._database.reading() as connection:
            return SqliteView(connection).matches(condition, limit=limit)

    def find(self, id: bytes) -> Event | None:
        with self._database.reading() as connection:
            found = SqliteView(connection).find(id)
        if found is None:
            self._require_end()
        return checked.event(self.damage, found, self._evidence)

    def head(self) -> int:
        seen = self._seen
        with self._database.reading() as connection:
            head = self._end(SqliteView(connection).head(), seen)
        if not self._opened.inspected.is_counted:
            self._require_end()
        return head

    def _end(self, head: int, seen: int) -> int:
        """The last position that was assigned, also if the end of the log is lost. `seen` was known before."""
        if head < seen:
            self._lose(Hole(head + 1, seen, "the log ends before them, and this handle has read them"))
        self._seen = max(self._seen, head)
        return head if self._lost is None else max(head, self._lost.last)

    def _lose(self, end: Hole) -> None:
        """Continue as after an opening that found the end of the log lost."""
        if self._lost is None or self._lost.last < end.last:
            self._lost = end
            self._survey(end.reason)

    def _require_end(self) -> None:
        """Refuse an answer that lost events at the end of the log may contradict."""
        if (lost := self._lost) is not None:
            raise errors.Damaged(first=lost.first, last=lost.last, reason=lost.reason)

    def floor(self) -> int:
        with self._database.reading() as connection:
            return SqliteView(connection).floor()

    def cut(self, stream: str) -> Cut | None:
        with self._database.reading() as connection:
            return SqliteView(connection).cut(stream)

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        with self._database.reading() as connection:
            return SqliteView(connection).cuts(after=after, limit=limit)

    def pruned(self, id: bytes) -> bool:
        self._require_end()
        with self._database.reading() as connection:
            return SqliteView(connection).pruned(id)

    def stream_head(self, stream: str) -> Head | None:
        self._require_end()
        with self._database.reading() as connection:
            return SqliteView(connection).stream_head(stream)

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        self._require_end()
        with self._database.reading() as connection:
            return structs_of(StreamInfo, connection.execute(statements.named("list_streams"), (after, limit)))

    def recorded_at(self, position: int) -> int | None:
        with self._database.reading() as connection:
            return SqliteView(connection).recorded_at(position)

    def wait(self, after: int, *, timeout: float) -> int:
        return wait_for_head(self.head, self._changed, lambda: self._closed, after=after, timeout=timeout)

    # --- health ----------------------------------------------------------------------------------------------------

    def _is_whole(self) -> bool:
        """Whether no event is missing that was not pruned: no position is lost, and no transfer is unfinished."""
        return not any(hole.last for hole in self._holes) and self.announced() <= self.head()

    def holes(self) -> list[Hole]:
        return list(self._holes)

    def _survey(self, reason: str) -> None:
        """Find the damaged ranges. Everything else is served, and nothing more is appended."""
        with self._database.reading() as connection:
            self._holes = survey.holes_in(connection, reason=reason, end=self._lost)
        put_on_record(self.damage, list(map(problem_of, self._holes)))

    def losses(self) -> list[Loss]:
        return []

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        self._database.readers.forget()  # verify the file, not pages of it that were read before
        inspected = self._opened.inspected
        if inspected.damage is not None and inspected.lost is None:  # what is lost is reported as a hole
            yield Problem("opening", inspected.damage)
        marked = mark.load(self._database.path)  # before the log, because the mark never leads
        with self._database.snapshot() as connection:
            for problem in inspection.check(connection, progress, marked):
                if problem.what == inspection.MARK and marked is not None:
                    self._lose(Hole(problem.position, marked.head, problem.reason))
                elif problem.what == inspection.DATABASE:  # a search then need not find everything
                    self._lose(Hole(0, 0, problem.reason))
                yield problem

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        self._require_writable()
        return self._reclaiming.reclaim(progress)

    def report(self) -> Report:
        problems = tuple(with_known(list(map(problem_of, self._holes)), self.damage.known()))
        with self._database.snapshot() as connection:
            facts = inspection.facts(connection, self._database.path)
        facts["erased_in_wal"] = self._reclaiming.erased_in_wal
        return Report(self.engine, facts, self._recovered, problems)

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        if self._holder is not None:
            with suppress(errors.TallyError):  # others take the leases over when this process is gone
                self._leave(self._holder)
            leases.retire(self._holder.owner)
        self._projection_tables.close()
        self._database.close()
        if self._opened.locks is not None:
            self._opened.locks.leave(self._finish)

    def _finish(self) -> None:
        """Note that the store was closed, if the write-ahead log is empty. Otherwise the next opening inspects it."""
        writer, locks = self._database.writer, self._opened.locks
        if writer is not None and writer.turn.failure is None and locks is not None:
            locks.mark.finish_if_empty(self.store_id, self._database.path)
