"""The ndjson engine: many runs, each with one writer at a time, in one directory."""

from __future__ import annotations

import bisect
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tallystick import errors
from tallystick.engines.damage_file import DamageFile
from tallystick.engines.ndjson import paths
from tallystick.engines.ndjson.commit import RunCommitter
from tallystick.engines.ndjson.documents import Documents
from tallystick.engines.ndjson.index import SEQ_BITS
from tallystick.engines.ndjson.registry import Registry
from tallystick.engines.ndjson.stream_log import StreamLog
from tallystick.engines.ndjson.unsupported import Unsupported
from tallystick.engines.tables.process import OwnerProcess
from tallystick.engines.tables.side_tables import SideTables
from tallystick.event.model import Event
from tallystick.store import checked, leases
from tallystick.store.capabilities import DURABLE
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import problem_of, put_on_record, with_known
from tallystick.store.events import PAGE_EVENTS, Problem, Report
from tallystick.store.filesystem import FileSystem
from tallystick.store.group_commit import Combiner
from tallystick.store.ledger import Head, Holder
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.selection import EVERYTHING, Selection

POLL_SECONDS = 0.01
LOGS_MAX = 256
FORMAT = 1
SEQ_MASK = (1 << SEQ_BITS) - 1


class NdjsonLog(Unsupported, SideTables):
    """A store of runs. `open_ndjson` makes one."""

    engine = "ndjson"
    capabilities = frozenset({DURABLE})

    def __init__(
        self,
        directory: str,
        files: FileSystem,
        *,
        store_id: bytes,
        profile: str,
        readonly: bool,
        clock: Callable[[], int],
        busy_ms: int,
        recovered: list[str],
    ) -> None:
        self.url = f"ndjson:{directory}"
        self.store_id = store_id
        self.profile = profile
        self.readonly = readonly
        self.directory = directory
        SideTables.__init__(self, f"{directory}/beside.db")
        self.run_documents = Documents(files, directory)
        self.damage = DamageFile(files, directory)
        self._files = files
        self._registry = Registry(files, directory)
        self._logs: OrderedDict[str, StreamLog] = OrderedDict()
        self._mutex = threading.Lock()
        self._recovered = recovered
        self._holder = Holder()
        self._committer = RunCommitter(
            files, directory, self._registry, self._holder, self._log, clock, busy_ms=busy_ms, damage=self.damage
        )
        self._combiner = Combiner(self._commit)
        self._changed = threading.Condition()
        self._closed = False
        self._birthplace = OwnerProcess()  # a lock that another thread holds at a fork is never released in the child

    def lend(self, streams: list[str]) -> None:
        """Serve streams that are not in the list of streams. For a handle that must not write that list."""
        for stream in streams:
            self._registry.lend(stream)

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        self._birthplace.require()
        return self._combiner.commit(transactions)

    def _commit(self, transactions: list[Transaction]) -> list[Outcome]:
        self._require_open()
        if self.readonly:
            raise errors.ReadOnly(reason=f"{self.url} was opened for reading")
        try:
            return self._committer.commit(transactions)
        finally:
            with self._changed:
                self._changed.notify_all()

    # --- streams ---------------------------------------------------------------------------------------------------

    def _log(self, stream: str) -> StreamLog | None:
        """The log of a stream, as far as this handle has read it; None if it does not exist."""
        number = self._registry.number(stream)
        if number is None:
            self._registry.refresh()
            number = self._registry.number(stream)
        if number is None:
            return None
        with self._mutex:
            log = self._logs.get(stream)
            if log is None:
                place = f"{self.directory}/{paths.path_of(stream)}"
                log = self._logs[stream] = StreamLog(self._files, place, stream, number)
                self._forget_some()
            self._logs.move_to_end(stream)
            return log

    def _forget_some(self) -> None:
        for stream in list(self._logs)[: max(0, len(self._logs) - LOGS_MAX)]:
            if stream not in self._holder.held and self._logs[stream].is_idle:
                del self._logs[stream]

    def _fresh(self, stream: str) -> StreamLog | None:
        """The log of a stream, with everything that is synced by now."""
        self._require_open()
        with self._reading():
            log = self._log(stream)
            if log is not None:
                log.refresh()
                if not self.readonly and log.needs_settling:
                    self._committer.settle(log)
            return log

    def _all(self, *, first: int = 0) -> Iterator[StreamLog]:
        """Every log that has or had events, by number."""
        with self._reading():
            self._registry.refresh()
        for number in self._registry.numbers(first=first):
            log = self._fresh(self._registry.stream(number) or "")
            if log is not None and log.last_position:
                yield log

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
        page = self._read(after, until, selection, limit, over_holes)
        if unchecked:
            return page
        gapless = selection.is_everything and not over_holes
        return checked.page(self.damage, page, self, after=after, over_holes=over_holes, gapless=gapless)

    def _read(self, after: int, until: int | None, selection: Selection, limit: int, over_holes: bool) -> Page:
        head = self.head()
        end = head if until is None else min(until, head)
        wanted = selection.predicate()
        found: list[Event] = []
        crossed: list[Hole] = []
        looked = after
        for item in self._walk(after, end):
            if isinstance(item, Hole):
                if over_holes:
                    crossed.append(item)
                elif looked == after:
                    raise errors.Damaged(first=item.first, last=item.last, reason=item.reason)
                else:
                    return Page(found, looked)
                continue
            looked = item.position
            if wanted(item):
                found.append(item)
                if len(found) == limit:
                    return Page(found, item.position, tuple(crossed))
        return Page(found, max(after, end), tuple(crossed))

    def _walk(self, after: int, until: int) -> Iterator[Event | Hole]:
        """Events and holes between two positions, stream after stream."""
        for log in self._all(first=after >> SEQ_BITS) if after < until else ():
            if log.index.number << SEQ_BITS >= until:
                return
            with self._reading():
                yield from self._noted(log.walk(after=after, until=until))

    def _noted(self, items: Iterator[Event | Hole]) -> Iterator[Event | Hole]:
        """The same items. Holes among them go on record."""
        for item in items:
            if isinstance(item, Hole):
                put_on_record(self.damage, [problem_of(item)])
            yield item

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        log = self._fresh(stream)
        if log is None:
            return []
        end = after + limit if until is None else min(until, after + limit)
        found: list[Event] = []
        with self._reading():
            for item in self._noted(log.walk(after=log.index.position(after), until=log.index.position(end))):
                if isinstance(item, Hole):
                    raise errors.Damaged(first=item.first, last=item.last, reason=item.reason)
                found.append(item)
        return checked.stream(self.damage, found, self, after=after)

    def find(self, id: bytes) -> Event | None:
        with self._reading():
            found = next((event for log in self._all() if (event := log.find(id)) is not None), None)
            if found is None:
                for log in self._all():
                    log.require_whole()
        return checked.event(self.damage, found, self)

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        with self._reading():
            return [self._link_before(event.stream, event.seq) for event in events]

    def _link_before(self, stream: str, seq: int) -> bytes | None:
        log = self._log(stream)
        try:
            before = None if log is None else next(log.events(after=seq - 2, until=seq - 1), None)
        except errors.Damaged:  # a reader of the event before it gets the error
            return None
        return None if before is None else before.link

    def head(self) -> int:
        """The last position of the newest stream. Streams have no order between them."""
        self._require_open()
        with self._reading():
            self._registry.refresh()
            for number in reversed(self._registry.numbers()):
                log = self._fresh(self._registry.stream(number) or "")
                if log is not None and log.last_position:
                    return log.last_position
        return 0

    def stream_head(self, stream: str) -> Head | None:
        log = self._fresh(stream)
        return None if log is None else log.head

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        self._require_open()
        found: list[StreamInfo] = []
        with self._reading():
            self._registry.refresh()
            names = self._registry.names()
        for name in names[bisect.bisect_right(names, after) :]:
            head = self.stream_head(name)
            if head is not None:
                found.append(StreamInfo(name, head.seq, head.link, head.org))
                if len(found) == limit:
                    break
        return found

    def recorded_at(self, position: int) -> int | None:
        self._require_open()
        with self._reading():
            self._registry.refresh()
            stream = self._registry.stream(position >> SEQ_BITS)
            log = None if stream is None else self._fresh(stream)
            return None if log is None else log.recorded(position & SEQ_MASK)

    def wait(self, after: int, *, timeout: float) -> int:
        until = time.monotonic() + timeout
        while (head := self.head()) <= after and (left := until - time.monotonic()) > 0:
            with self._changed:
                self._changed.wait(min(POLL_SECONDS, left))  # polls: another process cannot notify this one
                if self._closed:
                    break
        return head

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise errors.ReadFailed(path=self.url, reason=str(problem)) from problem

    # --- health ----------------------------------------------------------------------------------------------------

    def holes(self) -> list[Hole]:
        """The damage in the streams that were read so far. `check` reads all of them."""
        with self._mutex:
            logs = list(self._logs.values())
        return sorted((hole for log in logs for hole in log.holes()), key=lambda hole: hole.first)

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        done = 0
        for log in self._all():
            with self._reading():
                yield from log.problems()
            done += log.index.seq
            progress(done)

    def report(self) -> Report:
        self._require_open()
        with self._reading():
            logs = list(self._all())
            facts = {
                "directory": self.directory,
                "store_id": self.store_id.hex(),
                "profile": self.profile,
                "format": FORMAT,
                "streams": len(logs),
                "log_bytes": sum(log.index.end for log in logs),
                "head": self.head(),
                "free_bytes": self._files.free_bytes(self.directory),
            }
        problems = with_known(list(map(problem_of, self.holes())), self.damage.known())
        problems += [Problem("writer", log.poisoned.message, 0, log.stream) for log in logs if log.poisoned]
        recovered = [*self._recovered, *(line for log in logs for line in log.recovered)]
        return Report(self.engine, facts, tuple(recovered), tuple(problems))

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._birthplace.is_current:
            self._closed = True
            return
        with self._combiner.lock:
            if self._closed:
                return
            if not self.readonly:
                with suppress(errors.TallyError):  # what cannot be released can be taken over: this handle is retired
                    self._committer.release()
            self._closed = True
            leases.retire(self._holder.owner)
            self.close_side_tables()
            for log in self._logs.values():
                with suppress(OSError):  # the mark may lag
                    log.close()
        with self._changed:
            self._changed.notify_all()

    def _require_open(self) -> None:
        self._birthplace.require()
        if self._closed:
            raise errors.StoreClosed()
