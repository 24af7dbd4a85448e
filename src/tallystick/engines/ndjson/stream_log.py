"""One stream of a store: its directory and its index. Only this module reads and writes `events.ndjson`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from tallystick import errors
from tallystick.engines.ndjson import line as lines
from tallystick.engines.ndjson import mark, recovery, scan
from tallystick.engines.ndjson.index import SEQ_BITS, Index
from tallystick.engines.ndjson.lease import LeaseFile
from tallystick.event import ids
from tallystick.event.model import Event, Row
from tallystick.store.events import Problem
from tallystick.store.filesystem import FULL, File, FileSystem, write_fully
from tallystick.store.leases import Lease
from tallystick.store.ledger import Head
from tallystick.store.page import Hole

EVENTS = recovery.EVENTS
SEQ_MAX = (1 << SEQ_BITS) - 1
WARM_BYTES_MAX = 32 << 20


class StreamLog:
    """The log of one stream, as one handle sees it. `lock` guards the index; readers in other threads take it too."""

    def __init__(self, files: FileSystem, directory: str, stream: str, number: int) -> None:
        self.directory = directory
        self.stream = stream
        self.lock = threading.RLock()
        self.index = Index(number)
        self.leases = LeaseFile(files, directory, stream)
        self.poisoned: errors.StoreFailed | None = None
        self.recovered: list[str] = []
        self._files = files
        self._events: File | None = None
        self._mark_file: mark.StreamMarkFile | None = None
        self._mark = mark.NOTHING
        self._unsynced_mark = False
        self._settled = False
        self._warm: dict[int, lines.RunLine] = {}  # lines that were just checked: their first reader need not again

    # --- reading ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Index what is synced by now, whichever process wrote it."""
        with self.lock:
            if self.index.holes:
                return
            if self._files.exists(f"{self.directory}/{mark.NAME}"):
                found = self._load_mark()
                if found is not None and found.end > self.index.end:
                    self._take(found)
                if found is None or (found.alone and not self.index.holes and self._events is None):
                    self._take_without_mark()  # the unreadable slot may have been the newer one
            elif self._files.exists(f"{self.directory}/{EVENTS}"):  # the mark is created first, so it was lost
                self._take_without_mark()
            elif not self._files.exists(self.directory):  # it is created before the stream gets its number
                self.index.add_hole(1, 1, f"the directory {self.directory} is gone, with all events of {self.stream}")

    def _load_mark(self) -> mark.StreamMark | None:
        if self._mark_file is not None:
            return self._mark_file.load()
        file = mark.StreamMarkFile(self._files.open_read(f"{self.directory}/{mark.NAME}"))
        try:
            return file.load()
        finally:
            file.close()

    def _take(self, found: mark.StreamMark) -> None:
        file = self._reading()
        try:
            size = found.end - self.index.end
            taken = scan.index_synced(self.index, self.stream, file, end=found.end, seq=found.seq)
        finally:
            file.close()
        self._mark = found
        self._warm = {line.seq: line for line in taken} if size <= WARM_BYTES_MAX else {}

    def _take_without_mark(self) -> None:
        """A slot or the file is unreadable: serve the complete commits. The next writer creates a new mark."""
        file = self._reading()
        try:
            tail = recovery.examine(self.index, self.stream, file)
        finally:
            file.close()
        self._keep(tail)

    def _keep(self, tail: recovery.RunTail) -> None:
        for piece in tail.kept:
            assert piece.line is not None
            self.index.add_line(piece.line, piece.start, piece.end)
        if tail.damage:
            self.index.add_hole(self.index.seq + 1, self.index.seq + 1, tail.damage)

    def _reading(self) -> File:
        try:
            return self._files.open_read(f"{self.directory}/{EVENTS}")
        except FileNotFoundError:
            return _MissingFile()

    @property
    def head(self) -> Head | None:
        """The end of the stream, as far as it is served."""
        return self.index.head

    @property
    def last_position(self) -> int:
        """The position of the last event, also of a lost one; 0 if there is none."""
        ends = [hole.last for hole in self.index.holes]
        return max([self.index.position(self.index.seq) if self.index.seq else 0, *ends])

    def walk(self, *, after: int, until: int) -> Iterator[Event | Hole]:
        """The events with after < position <= until and the holes between them, ascending."""
        first = max(after - self.index.position(0), 0)
        last = min(until - self.index.position(0), SEQ_MAX)
        holes = sorted((hole for hole in self.index.holes if hole.last > after), key=lambda hole: hole.first)
        for hole in holes:
            before = (hole.first & SEQ_MAX) - 1
            yield from self.events(after=first, until=min(before, last))
            if hole.first > until:
                return
            yield hole
            first = max(first, hole.last & SEQ_MAX)
        yield from self.events(after=first, until=last)

    def events(self, *, after: int, until: int) -> Iterator[Event]:
        """The events with after < seq <= until that are not in a hole."""
        number = self.index.number
        return (found.event(number) for found in self._lines(after=after, until=until))

    def find(self, id: bytes) -> Event | None:
        """The event with this id."""
        seq = self.index.ids.get(ids.to_text(id))
        return None if seq is None else next(self.events(after=seq - 1, until=seq), None)

    def recorded(self, seq: int) -> int | None:
        """When the event of a seq was recorded."""
        return next((found.recorded for found in self._lines(after=seq - 1, until=seq)), None)

    def _lines(self, *, after: int, until: int) -> Iterator[lines.RunLine]:
        with self.lock:
            wanted = range(after + 1, min(until, self.index.seq) + 1)
            warm = [self._warm.pop(seq, None) for seq in wanted] if self._warm else []
            extents = [self.index.extent(seq) for seq in wanted] if not warm or None in warm else []
            seqs = {extent[0]: seq for seq, extent in zip(wanted, extents, strict=False) if extent is not None}
        yield from (line for line in warm if not extents and line is not None)
        known = [extent for extent in extents if extent is not None]
        if not known:
            return
        file = self._reading()
        try:
            for group in _in_chunks(known):
                base, end = group[0][0], group[-1][1]
                data = file.read_at(base, end - base)
                for start, stop in group:
                    yield self._line(data[start - base : stop - base - 1], start, seqs[start])
        finally:
            file.close()

    def _line(self, text: bytes, start: int, seq: int) -> lines.RunLine:
        found = lines.decode(text)
        if found is None or (found.stream, found.seq) != (self.stream, seq):  # it matched when it was indexed
            at, reason = self.index.position(seq), f"{self.stream} seq {seq}: the line at byte {start} changed"
            raise errors.Damaged(first=at, last=at, reason=reason)
        return found

    def holes(self) -> list[Hole]:
        """The known damaged ranges."""
        return list(self.index.holes)

    def require_whole(self) -> None:
        """Raise `Damaged` if any part of the stream is damaged."""
        for hole in self.index.holes:
            raise errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)

    def problems(self) -> Iterator[Problem]:
        """Read the whole file again and yield what is wrong, including repeated ids, which reading does not notice."""
        other = StreamLog(self._files, self.directory, self.stream, self.index.number)
        other.refresh()
        for hole in other.index.holes:
            yield Problem("line", hole.reason, hole.first, self.stream, hole.first & SEQ_MAX)
        if len(other.index.ids) != other.index.lines:
            yield Problem("id", f"an id appears twice in {self.stream}", 0, self.stream)

    # --- writing, under the run's lock -----------------------------------------------------------------------------

    def prepare(self, *, clock: Callable[[], int]) -> None:
        """Make the log ready for a commit: create it, index what others wrote, and settle what a crash left."""
        if self.poisoned is not None:
            raise errors.StoreFailed(**self.poisoned.values)
        with self.lock, self._guarding("opening for writing"):
            if self._events is None:
                self._create_missing()
                self._open()
                self.refresh()
            assert self._events is not None
            if self._events.size() != self.index.end or self._mark.end != self.index.end:
                self.refresh()
                self._settle(clock)
            self._settled = True
        self.require_whole()

    def _open(self) -> None:
        self._events = self._files.open_write(f"{self.directory}/{EVENTS}")
        self._mark_file = mark.StreamMarkFile(self._files.open_write(f"{self.directory}/{mark.NAME}"))

    def _create_missing(self) -> None:
        self._files.make_dir(self.directory)
        if not self._files.exists(f"{self.directory}/{mark.NAME}"):
            mark.create(self._files, self.directory)
        if not self._files.exists(f"{self.directory}/{EVENTS}"):
            self._files.create(f"{self.directory}/{EVENTS}").close()
        self._files.sync_dir(self.directory)

    def _settle(self, clock: Callable[[], int]) -> None:
        assert self._events is not None
        if self._events.size() < self.index.end:  # it was cut while this handle had it open: do not write there
            self.index.add_hole(1, self.index.seq, f"{self.stream}: the log is shorter than it was")
        if self.index.holes:
            return
        tail = recovery.examine(self.index, self.stream, self._events)
        tail.begin = min(tail.begin, self._mark.end)  # events served without a mark may not be synced
        if not tail.damage:
            self.recovered += recovery.settle(self._files, self.directory, self._events, tail, time_ns=clock())
        self._keep(tail)
        if not tail.damage:
            self._advance()

    def write(self, rows: list[Row], *, recorded: int) -> None:
        """Write one commit, sync it, and advance the mark. Then it is durable and visible."""
        assert self._events is not None
        data, sizes = lines.encode(rows, recorded=recorded)
        start = self.index.end
        self._write(start, data)
        with self._guarding("fsync"):
            self._events.sync()
        with self.lock:
            self.index.add_rows(rows, start, sizes)
            with self._guarding("the synced mark"):
                self._advance()

    def put_lease(self, lease: Lease) -> None:
        """Record durably who may write."""
        try:
            self.leases.put(lease)
        except OSError as problem:
            if problem.errno in FULL:
                raise errors.NoSpace(needed=0, path=self.directory) from problem
            raise self.poison("the lease", problem) from problem

    def _write(self, start: int, data: bytes) -> None:
        assert self._events is not None
        try:
            write_fully(self._events, start, data)
        except OSError as problem:
            if problem.errno not in FULL:
                raise self.poison("write", problem) from problem
            with self._guarding("truncate"):
                self._events.truncate(start)
            raise errors.NoSpace(needed=len(data), path=self.directory) from problem

    def _advance(self) -> None:
        assert self._mark_file is not None
        self._mark = mark.StreamMark(self.index.end, self.index.seq, self._mark.turn + 1)
        self._mark_file.advance(self._mark)
        self._unsynced_mark = True

    def _guarding(self, operation: str) -> _Guard:
        return _Guard(self, operation)

    def poison(self, operation: str, problem: BaseException) -> errors.StoreFailed:
        """Refuse every further commit of this handle. Recovery decides what counts on disk."""
        self.poisoned = errors.StoreFailed(operation=operation, reason=str(problem) or repr(problem))
        return self.poisoned

    @property
    def needs_settling(self) -> bool:
        """Whether this handle has not yet examined what comes after the mark. For handles that may write."""
        return not self._settled and self.poisoned is None and not self.index.holes

    @property
    def is_idle(self) -> bool:
        """Whether this handle has no file of the log open."""
        return self._events is None and self.poisoned is None

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the files. Sync the mark if nothing failed."""
        with self.lock:
            if self._unsynced_mark and self.poisoned is None and self._mark_file is not None:
                self._mark_file.sync()
                self._unsynced_mark = False
            self._close_files()

    def _close_files(self) -> None:
        if self._events is not None:
            self._events.close()
        if self._mark_file is not None:
            self._mark_file.close()
        self._events = self._mark_file = None


def _in_chunks(extents: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Extents in groups that are read at once. A group has at least one."""
    at = 0
    while at < len(extents):
        upto = at + 1
        while upto < len(extents) and extents[upto][1] - extents[at][0] <= scan.CHUNK_BYTES:
            upto += 1
        yield extents[at:upto]
        at = upto


class _MissingFile:
    """Stands in for a log file that is gone: it has no bytes, which contradicts the mark."""

    def read_at(self, offset: int, size: int) -> bytes:
        return b""

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        raise FileNotFoundError(EVENTS)

    def size(self) -> int:
        return 0

    def sync(self) -> None: ...
    def truncate(self, size: int) -> None: ...
    def close(self) -> None: ...


class _Guard:
    """Poisons the log if a file operation fails."""

    def __init__(self, log: StreamLog, operation: str) -> None:
        self._log = log
        self._operation = operation

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, OSError):
            raise self._log.poison(self._operation, problem) from problem
