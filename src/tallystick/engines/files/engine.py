"""The files engine: one writer, many readers, in one directory. See the package's first page for the invariants."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from tallystick import errors
from tallystick.engines.files import checking, discovery, frame, index, mark, opener, segment
from tallystick.engines.files.beside import BesideCheckpoints
from tallystick.engines.files.heads import HeadCache
from tallystick.engines.files.reader import Reader, merged_names
from tallystick.engines.files.segments import Renamed, Segment, SegmentSet
from tallystick.engines.files.writer import (
    Writer,
)
from tallystick.engines.tables import deadletters, views
from tallystick.engines.tables.lazily import LazyDatabase
from tallystick.event.model import Event, Row
from tallystick.store import capabilities, leases
from tallystick.store.combining import Combiner, by_bytes
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.events import PAGE_EVENTS, Problem, Report
from tallystick.store.ledger import Head, Holder, Ledger
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.views import Inline, Views, apart

T = TypeVar("T")

POLL_SECONDS = 0.01
RENAMES_MAX = 100
INDEX_SHARE = 8  # at close the current index is written again when an eighth of the segment is not in it


class FilesLog:
    """A log of segment files."""

    engine = "files"
    capabilities = capabilities.ALL

    def __init__(
        self,
        directory: str,
        opened: opener.Opened,
        *,
        readonly: bool,
        clock: Callable[[], int],
        segment_bytes_max: int,
        segment_age_ns_max: int,
    ) -> None:
        header = opened.segments.last.header
        self.url = f"files:{directory}"
        self.store_id = header.store_id
        self.profile = header.profile
        self.readonly = readonly
        self.checkpoints = BesideCheckpoints(f"{directory}/{discovery.BESIDE}")
        self._beside = LazyDatabase(f"{directory}/{discovery.BESIDE}", views.SCHEMA + deadletters.SCHEMA)
        self.views = views.SqliteViews(self._beside)
        self.dead_letters = deadletters.SqliteDeadLetters(self._beside)
        self.inline: Inline | None = None
        self._opened = opened
        self._clock = clock
        self._segments = opened.segments
        self._holes = list(opened.holes)
        self._reader = Reader(opened.handles, self._note_hole)
        self._holder = Holder()
        self._heads = HeadCache()
        self._buffer = frame.FrameBuffer()
        self._pid = os.getpid()
        self._combiner = Combiner(self._commit)
        opened.handles.lock = self._combiner.lock
        self._changed = threading.Condition()
        self._closed = False
        self._writer: Writer | None = None
        if opened.mark_file is not None:
            self._writer = Writer(
                opened.handles,
                self._segments.last,
                opened.mark_file,
                clock=clock,
                segment_bytes_max=segment_bytes_max,
                segment_age_ns_max=segment_age_ns_max,
            )

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        return self._combiner.commit(transactions)

    def _commit(self, transactions: list[Transaction]) -> list[Outcome]:
        if len(transactions) == 1:
            return apart(self._commit_group, transactions)
        return [outcome for group in by_bytes(transactions) for outcome in apart(self._commit_group, group)]

    def _commit_group(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        writer = self._require_writer()
        ledger = Ledger(self, next_position=writer.current.next_position, holder=self._holder)
        outcomes: list[Outcome] = []
        for transaction in transactions:
            try:
                outcomes.append(ledger.judge(transaction))
            except errors.TallyError as refusal:
                outcomes.append(refusal)
        if ledger.rows or ledger.leases:
            store_rows = self.inline.prepare(ledger.rows, self.views) if self.inline and ledger.rows else None
            try:
                self._write(writer, ledger)
                ledger.committed()
            except errors.TallyError:
                raise
            except BaseException as interruption:  # Ctrl-C in the middle: what is on disk is for recovery to say
                writer.poison("an interrupted append", interruption)
                raise
            with self._changed:
                self._changed.notify_all()
            if store_rows is not None:
                self._store_inline(store_rows)
        return outcomes

    def _store_inline(self, store_rows: Callable[[Views], None]) -> None:
        try:
            store_rows(self.views)
        except errors.TallyError as problem:  # the events are durable all the same: whoever retries needs their ids
            raise errors.StoreFailed(operation="storing inline rows", reason=problem.message) from problem

    def _write(self, writer: Writer, ledger: Ledger) -> None:
        taken = ledger.leases
        position, recorded, side = writer.current.next_position, self._clock(), index.side_of(taken)
        data = self._frame(writer.current, position, ledger.rows, recorded, side)
        if writer.is_due(len(data)):
            self._seal(writer)
            data = self._frame(writer.current, position, ledger.rows, recorded, side)
        offset = writer.append(data, next_position=position + len(ledger.rows))
        writer.current.grow().add(
            ledger.rows,
            ledger.heads,
            offset=offset,
            end=offset + len(data),
            position=position,
            sources=ledger.sources,
            taken=taken,
        )
        self._heads.put(ledger.heads)

    def _frame(self, item: Segment, position: int, rows: list[Row], recorded: int, side: list[Any]) -> bytearray:
        segment_id = item.header.segment_id
        return self._buffer.encode(segment_id, item.end, position, rows, recorded=recorded, side=side)

    def _seal(self, writer: Writer) -> None:
        sealed = writer.current
        begun = writer.seal()
        begun.org_before = functools.partial(discovery.org_in, self._segments.items)
        self._segments = SegmentSet([*self._segments.items, begun])
        sealed.load_index(self._opened.cache)

    def _require_writer(self) -> Writer:
        self._require_open()
        if self._holes:
            hole = self._holes[0]
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
        if self._writer is None:
            raise errors.ReadOnly(reason=f"{self.url} was opened for reading")
        if self._writer.poisoned is not None:
            raise errors.StoreFailed(**self._writer.poisoned.values)
        if os.getpid() != self._pid:
            raise errors.StoreFailed(operation="fork", reason="the store was opened by the parent process")
        return self._writer

    # --- what the ledger asks --------------------------------------------------------------------------------------

    def stream_head(self, stream: str) -> Head | None:
        head = self._heads.get(stream)  # only a writer puts heads there
        if head is None or self._closed:
            self._refresh()
            return self._steady(lambda: self._search(lambda item: item.stream_head(stream)))
        return head

    def source_head(self, source: str) -> int:
        return self._steady(lambda: self._search(lambda item: item.source(source))) or 0

    def lease(self, stream: str) -> leases.Lease | None:
        """The latest lease. While this process holds the writer's lock, no other owner can be alive."""
        lease = self._steady(lambda: self._search(lambda item: item.lease(stream)))
        if lease is None or lease.owner == self._holder.owner:
            return lease
        return leases.Lease(stream, lease.number, None)

    def _search(self, question: Callable[[Segment], T | None]) -> T | None:
        """The answer of the newest segment that has one."""
        return next((answer for item in reversed(self._segments.items) if (answer := question(item))), None)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
    ) -> Page:
        head = self.head()
        end = head if until is None else min(until, head)
        if after >= end:
            return Page([], after)
        return self._steady(
            lambda: self._reader.page(
                self._segments, after=after, end=end, selection=selection, limit=limit, over_holes=over_holes
            )
        )

    def read_stream(
        self, stream: str, *, after: int = 0, until: int | None = None, limit: int = PAGE_EVENTS
    ) -> list[Event]:
        self._refresh()
        return self._steady(lambda: self._reader.stream(self._segments, stream, after=after, until=until, limit=limit))

    def find(self, id: bytes) -> Event | None:
        self._refresh()
        return self._steady(lambda: self._reader.find(self._segments, id))

    def head(self) -> int:
        """The last position there is or was: a hole at the end counts, lest it be taken for the end of the log."""
        self._refresh()
        return max([self._segments.last.next_position - 1, *(hole.last for hole in self._holes)])

    def floor(self) -> int:
        return 0

    def streams(self, *, after: str = "", limit: int = PAGE_EVENTS) -> list[StreamInfo]:
        self._refresh()
        names = self._steady(lambda: list(islice(merged_names(self._segments, after), limit)))
        heads = ((name, self.stream_head(name)) for name in names)
        return [StreamInfo(name, head.seq, head.link, head.org) for name, head in heads if head is not None]

    def recorded_at(self, position: int) -> int | None:
        if not 1 <= position <= self.head():
            return None
        return self._steady(lambda: self._reader.recorded(self._segments, position))

    def wait(self, after: int, *, timeout: float) -> int:
        if self.readonly:
            return self._poll(after, timeout)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.head() > after, timeout)
        return self.head()

    def _poll(self, after: int, timeout: float) -> int:
        until = time.monotonic() + timeout
        while (head := self.head()) <= after and (left := until - time.monotonic()) > 0:
            time.sleep(min(POLL_SECONDS, left))
        return head

    def _steady(self, question: Callable[[], T]) -> T:
        """Ask again when a segment was renamed between looking and opening."""
        try:
            for _ in range(RENAMES_MAX):
                try:
                    return question()
                except (Renamed, FileNotFoundError):
                    if self._opened.lock is not None:  # this is the writer: when it is not sealing, its names are right
                        with self._combiner.lock:
                            return question()
                    self._look_again()
            raise errors.StoreFailed(operation="open", reason=f"the segments of {self.url} keep changing")
        except Renamed as problem:
            raise errors.ReadFailed(path=self.url, reason=f"{problem} is another segment now") from problem
        except OSError as problem:
            raise self._read_failed(problem) from problem

    def _refresh(self) -> None:
        """Follow a writer in another process: take in what it has synced since."""
        self._require_open()
        if self.readonly:
            try:
                self._follow(mark.load(self._opened.handles.files, self._opened.handles.directory))
            except OSError as problem:
                raise self._read_failed(problem) from problem

    def _follow(self, marked: mark.Mark | None) -> None:
        last = self._segments.last
        if marked is None or (marked.segment_id == last.header.segment_id and marked.end <= last.end):
            return
        with self._combiner.lock:
            if marked.segment_id == self._segments.last.header.segment_id:
                self._extend(self._segments.last, marked)
            else:
                self._look_again()

    def _extend(self, last: Segment, marked: mark.Mark) -> None:
        file = self._opened.handles.get(last)
        last.end = max(last.end, marked.end)  # before the index grows: what it points at must lie inside the segment
        holes = last.index_all(file, end=marked.end)
        if last.covered_end < marked.end:
            holes.append(Hole(last.next_position, marked.next_position - 1, f"{last.name} is damaged or cut"))
        for hole in holes:
            self._note_hole(hole)
        last.end = last.covered_end

    def _look_again(self) -> None:
        with self._combiner.lock:
            opened = opener.open_for_reading(self._opened.handles.files, self._opened.handles.directory)
            opened.handles.lock = self._combiner.lock
            self._opened = opened
            self._reader = Reader(opened.handles, self._note_hole)
            self._segments = opened.segments
            self._holes = list(opened.holes)

    # --- state -----------------------------------------------------------------------------------------------------

    def holes(self) -> list[Hole]:
        return list(self._holes)

    def _note_hole(self, hole: Hole) -> None:
        if not any(known.first <= hole.first and hole.last <= known.last for known in self._holes):
            self._holes.append(hole)

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        self._refresh()
        try:
            yield from checking.problems(self._segments, self._opened.handles, progress)
        except OSError as problem:
            raise self._read_failed(problem) from problem

    def _read_failed(self, problem: OSError) -> errors.ReadFailed:
        return errors.ReadFailed(path=self.url, reason=str(problem))

    def report(self) -> Report:
        self._refresh()
        writing, unknown = self._writer is not None, self._opened.unknown
        facts = self._steady(
            lambda: checking.facts(self._segments, self._opened.handles, writing=writing, unknown=unknown)
        )
        found = [
            Problem("hole", f"positions {hole.first} to {hole.last}: {hole.reason}", hole.first) for hole in self._holes
        ]
        if self._writer is not None and self._writer.poisoned is not None:
            found.append(Problem("writer", self._writer.poisoned.message))
        return Report(self.engine, facts, tuple(self._opened.recovered), tuple(found))

    def close(self) -> None:
        with self._combiner.lock:
            if self._closed:
                return
            self._leave()
            self._closed = True
            leases.retire(self._holder.owner)
            self.checkpoints.close()
            self._beside.close()
            self._opened.handles.close()
            for item in self._segments:
                if item.base is not None:
                    item.base.close()
            if self._opened.lock is not None:
                self._opened.lock.release()
        with self._changed:
            self._changed.notify_all()

    def _leave(self) -> None:
        """Give leases back, and write down the current index unless almost all of it is written."""
        writer = self._writer
        if writer is None:
            return
        healthy = writer.poisoned is None and not self._holes and os.getpid() == self._pid
        try:
            if healthy and self._holder.held:
                self._commit([Transaction([], release=tuple(self._holder.held))])
            current = writer.current
            covered = current.base.covered_end if current.base is not None else segment.SIZE
            if healthy and (current.end - covered) * INDEX_SHARE > current.end:
                current.save_index()
        except (errors.TallyError, OSError):
            healthy = False  # nothing is lost: the next opening finds what is missing
        with contextlib.suppress(OSError):  # the mark may lag
            writer.close(clean=healthy)

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StoreClosed()
