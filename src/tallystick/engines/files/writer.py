"""Writing frames to the current segment, and sealing it.

Invariants:
- An append writes the frame, syncs it, advances the mark, and then indexes the frame.
- A full disk rolls the frame back; appends work again when there is space. Any other failure poisons the writer until
  the log is reopened, because after a failed fsync it is not known what is on disk.
- Nothing is acknowledged unless the names in the directory still lead to the files that were written.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tallystick import errors
from tallystick.engines.files import segment, side
from tallystick.engines.files.frame import Frame, FrameBuffer
from tallystick.engines.files.mark import NAME as MARK_NAME
from tallystick.engines.files.mark import SegmentMarkFile
from tallystick.engines.files.segments import Segment, derived_names, following, org_in
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.view import LogView
from tallystick.event.model import Row
from tallystick.store.filesystem import FULL, File, FileSystem, Lock, publish_file, stage_file, write_fully
from tallystick.store.ledger import Head, Source

T = TypeVar("T")

IN_USE = "current.log is open elsewhere, so it cannot be renamed and sealed"

SEGMENT_BYTES_MAX = 100_000_000
SEGMENT_BYTES_MIN, SEGMENT_BYTES_LIMIT = 256, 1 << 31  # offsets in the index have 32 bits, and a frame may be 1 GiB
SEGMENT_AGE_NS_MAX = 24 * 3600 * 1_000_000_000
SEAL_AGAIN_NS = 1_000_000_000
INDEX_SHARE = 8  # at close the current index is written again when an eighth of the segment is not in it


class SegmentWriter:
    """The one writer of a log. Not safe for threads: the engine holds the lock."""

    def __init__(
        self,
        view: LogView,
        mark: SegmentMarkFile,
        lock: Lock,
        *,
        clock: Callable[[], int],
        segment_bytes_max: int,
        segment_age_ns_max: int,
        on_sealed: Callable[[Segment], None],
    ) -> None:
        self._view = view
        self._handles = view.handles
        self._files: FileSystem = self._handles.files
        self._directory = self._handles.directory
        self._mark = mark
        self._lock = lock
        self._clock = clock
        self._segment_bytes_max = segment_bytes_max
        self._segment_age_ns_max = segment_age_ns_max
        self._on_sealed = on_sealed
        self._buffer = FrameBuffer()
        self.current = view.segments[-1]
        self.next_position = self.current.next_position
        self.poisoned: errors.StoreFailed | None = None
        self._refused_at: int | None = None
        self._file: File = self._files.open_write(f"{self._directory}/{self.current.name}")

    def append(
        self,
        rows: Sequence[Row],
        heads: dict[str, Head],
        sources: Mapping[Source, int],
        records: SideRecords,
        *,
        count: int,
    ) -> None:
        """Write one frame that covers `count` positions, make it durable, and index it."""
        now = self._clock()
        data = self._encode(rows, records, recorded=now, count=count)
        if self._is_due(len(data), now) and self.seal():
            data = self._encode(rows, records, recorded=now, count=count)  # a frame is valid in one place only
        current, offset, first = self.current, self.current.end, self.next_position
        frame = Frame(offset, offset + len(data), first, first + count)
        self._write(frame, data)
        current.end = frame.end
        current.index_frame(frame, rows, heads, sources, records)
        self.next_position = frame.next_position

    def _encode(self, rows: Sequence[Row], records: SideRecords, *, recorded: int, count: int) -> bytearray:
        current = self.current
        return self._buffer.encode(
            current.identity,
            current.end,
            self.next_position,
            rows,
            recorded=recorded,
            side=side.encode(records) if records is not side.NOTHING else [],
            count=count,
            short=current.header.short_frames,
        )

    def _is_due(self, size: int, now: int) -> bool:
        """Whether the current segment must be sealed before a frame of this size."""
        current = self.current
        if current.end == segment.SIZE:
            return False
        if self._refused_at is not None and 0 <= now - self._refused_at < SEAL_AGAIN_NS:
            return False
        is_full = current.end + size > self._segment_bytes_max
        return is_full or now - current.header.created >= self._segment_age_ns_max

    @property
    def why_not_sealed(self) -> str:
        """Why the current segment is not sealed though it is due."""
        return IN_USE if self._refused_at is not None else ""

    def _write(self, frame: Frame, data: bytes | bytearray) -> None:
        """Write, sync, advance the mark: in this order, so that the mark never leads."""
        if frame.offset > SEGMENT_BYTES_LIMIT:
            raise errors.StoreFailed(operation="rotation", reason=f"{IN_USE}, and no more fits in: close what reads it")
        self._write_bytes(frame.offset, data)
        operation = "fsync"
        try:
            self._file.sync()
            self._require_names()
            operation = "the synced mark"
            self._mark.advance(self.current.header.segment_id, frame.end, frame.next_position)
        except OSError as problem:
            raise self.poison(operation, problem) from problem

    def _write_bytes(self, offset: int, data: bytes | bytearray) -> None:
        try:
            write_fully(self._file, offset, data)
        except OSError as problem:
            if problem.errno not in FULL:
                raise self.poison("write", problem) from problem
            self._guarded("truncate", lambda: self._file.truncate(offset))
            raise errors.NoSpace(needed=len(data), path=self._directory) from problem

    def seal(self) -> bool:
        """Seal the current segment under a dated name and begin the next one.

        False: the segment is open elsewhere, and cannot be renamed there. It grows, and is sealed later.
        """
        sealed, begun = self.current, self._begun()
        if begun is None:
            return False
        begun.org_before = functools.partial(org_in, self._view.segments)
        self._view.begin(begun)
        sealed.load_index()
        sealed.tags.load()
        self._on_sealed(sealed)
        return True

    def _begun(self) -> Segment | None:
        """The next segment, begun on disk; None if the current one cannot be renamed now.

        Whatever may fail because the disk is full comes first and changes nothing. Then the names become durable in an
        order in which no crash loses one: the sealed name, then the new current.log.
        """
        self._require_names()
        sealed = self.current
        begun = following(sealed, self._handles, clock=self._clock)
        try:
            name = segment.sealed_name(self._names_taken(), time_ns=self._clock())
            sealed.save_index(name=name)
            stage_file(self._files, self._directory, segment.CURRENT, segment.encode(begun.header))
        except OSError as problem:
            if problem.errno in FULL:
                raise errors.NoSpace(needed=segment.SIZE, path=self._directory) from problem
            raise self.poison("a new segment", problem) from problem
        if not self._guarded("rename", lambda: self._renamed(sealed, name)):
            return None
        self._guarded("rename", lambda: self._exchange(sealed, name, begun))
        return begun

    def _require_names(self) -> None:
        """Poison the writer if the names in the directory no longer lead to its files."""
        for name, file in ((segment.CURRENT, self._file), (MARK_NAME, self._mark.file)):
            if not self._files.leads_to(f"{self._directory}/{name}", file):
                raise self._name_lost(name)
        if not self._lock.is_held:
            raise self._name_lost("lock")

    def _name_lost(self, name: str) -> errors.StoreFailed:
        reason = OSError(f"{name} was removed, renamed or replaced under its writer; open the log again")
        return self.poison("the directory", reason)

    def _names_taken(self) -> set[str]:
        """Names of segments, and of those that only have an index because they were moved away."""
        derived = self._files.list(f"{self._directory}/index")
        return {*self._files.list(self._directory), *(f"{name.rpartition('.')[0]}.log" for name in derived)}

    def _renamed(self, sealed: Segment, name: str) -> bool:
        """Give the segment its dated name. Its file is closed meanwhile: on Windows an open one cannot be renamed."""
        path = f"{self._directory}/{sealed.name}"
        if not self._files.pins_open_files:  # opened while it has this name, for threads that read
            self._handles.get(sealed)
        self._file.close()
        try:
            self._files.rename(path, f"{self._directory}/{name}")
        except PermissionError:
            self._file = self._files.open_write(path)
            for derived in derived_names(name):
                with contextlib.suppress(OSError):
                    self._files.unlink(f"{self._directory}/index/{derived}")
            self._refused_at = self._clock()
            return False
        self._refused_at = None
        return True

    def _exchange(self, sealed: Segment, name: str, begun: Segment) -> None:
        self._files.sync_dir(self._directory)
        sealed.name = name
        publish_file(self._files, self._directory, segment.CURRENT)
        self._handles.keep(begun, self._files.open_read(f"{self._directory}/{segment.CURRENT}"))
        self._mark.advance(begun.header.segment_id, begun.end, begun.next_position)
        self._mark.sync()
        self._file = self._files.open_write(f"{self._directory}/{begun.name}")
        self.current = begun

    def _guarded(self, operation: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except OSError as problem:
            raise self.poison(operation, problem) from problem

    def poison(self, operation: str, problem: BaseException) -> errors.StoreFailed:
        self.poisoned = errors.StoreFailed(operation=operation, reason=str(problem) or repr(problem))
        return self.poisoned

    def close(self, *, clean: bool) -> None:
        """Close the files. A clean close makes the mark durable, and the index if much of it is only in memory."""
        with contextlib.suppress(errors.TallyError, OSError):  # the index may be missing, and the mark may lag
            if clean and self.poisoned is None:
                self._save_index()
                self._mark.sync()
        with contextlib.suppress(OSError):
            self._mark.close()
            self._file.close()

    def _save_index(self) -> None:
        current = self.current
        covered = current.base.covered_end if current.base is not None else segment.SIZE
        if (current.end - covered) * INDEX_SHARE > current.end:
            self._require_names()
            current.save_index()
