"""Writing frames to the current segment, and sealing it.

An append is: write the frame, sync, advance the mark. No space rolls the frame back and is over when there is room
again; any other failure poisons the writer for good, because after a failed fsync nobody knows what is on disk.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import TypeVar

from tallystick import errors
from tallystick.engines.files import segment
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.mark import NAME as MARK_NAME
from tallystick.engines.files.mark import SegmentMarkFile
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Segment
from tallystick.store.filesystem import FULL, File, FileSystem, Lock, publish_file, stage_file, write_fully

T = TypeVar("T")

IN_USE = "current.log is open elsewhere, so it cannot be renamed and sealed"

SEGMENT_BYTES_MAX = 100_000_000
SEGMENT_BYTES_MIN, SEGMENT_BYTES_LIMIT = 256, 1 << 31  # offsets in the index have 32 bits, and a frame may be 1 GiB
SEGMENT_AGE_NS_MAX = 24 * 3600 * 1_000_000_000
SEAL_AGAIN_NS = 1_000_000_000
INDEX_SHARE = 8  # at close the current index is written again when an eighth of the segment is not in it


class SegmentWriter:
    """The one writer of a log. Not safe for threads: the engine holds its lock."""

    def __init__(
        self,
        handles: Handles,
        current: Segment,
        mark: SegmentMarkFile,
        lock: Lock,
        *,
        clock: Callable[[], int],
        segment_bytes_max: int,
        segment_age_ns_max: int,
    ) -> None:
        self._handles = handles
        self._files: FileSystem = handles.files
        self._directory = handles.directory
        self._mark = mark
        self._lock = lock
        self._clock = clock
        self._segment_bytes_max = segment_bytes_max
        self._segment_age_ns_max = segment_age_ns_max
        self.current = current
        self.poisoned: errors.StoreFailed | None = None
        self._refused_at: int | None = None
        self._file: File = self._files.open_write(f"{self._directory}/{current.name}")

    def is_due(self, size: int) -> bool:
        """Whether the current segment must be sealed before a frame of this size."""
        written = self.current.end - segment.SIZE
        if not written:
            return False
        full, now = self.current.end + size > self._segment_bytes_max, self._clock()
        if self._refused_at is not None and 0 <= now - self._refused_at < SEAL_AGAIN_NS:
            return False
        return full or now - self.current.header.created >= self._segment_age_ns_max

    @property
    def waits(self) -> str:
        """Why the current segment is not sealed though it is due."""
        return IN_USE if self._refused_at is not None else ""

    def append(self, frame: bytes | bytearray, *, next_position: int) -> int:
        """Write one frame and make it durable; returns its offset."""
        offset, end = self.current.end, self.current.end + len(frame)
        if offset > SEGMENT_BYTES_LIMIT:
            raise errors.StoreFailed(operation="rotation", reason=f"{IN_USE}, and no more fits in: close what reads it")
        segment_id = self.current.header.segment_id
        self._write(offset, frame)
        operation = "fsync"
        try:
            self._file.sync()
            self._require_names()
            operation = "the synced mark"
            self._mark.advance(segment_id, end, next_position)
        except OSError as problem:
            raise self.poison(operation, problem) from problem
        self.current.end = end
        return offset

    def _write(self, offset: int, frame: bytes | bytearray) -> None:
        try:
            write_fully(self._file, offset, frame)
        except OSError as problem:
            if problem.errno not in FULL:
                raise self.poison("write", problem) from problem
            self._guarded("truncate", lambda: self._file.truncate(offset))
            raise errors.NoSpace(needed=len(frame), path=self._directory) from problem

    def seal(self) -> Segment | None:
        """Seal the current segment under a dated name and begin the next one, which is returned.

        None: somebody has the segment open, where it then cannot be renamed. It grows, and is sealed later. What may
        fail for want of room comes first and changes nothing. Then names become durable in an order in which no crash
        loses one: the sealed name, then the new current.log.
        """
        self._require_names()
        sealed = self.current
        begun = following(sealed, self._handles, clock=self._clock)
        try:
            name = segment.sealed_name(self._names_taken(), time_ns=self._clock())
            sealed.save_index(name=name.removesuffix(".log") + ".idx")
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
        """Nothing is acknowledged, and nothing renamed, that the names in the directory do not lead to."""
        current = f"{self._directory}/{segment.CURRENT}"
        if not self._files.leads_to(current, self._file):
            raise self._exchanged(segment.CURRENT)
        if not self._mark.is_in_place:
            raise self._exchanged(MARK_NAME)
        if not self._lock.is_held:
            raise self._exchanged("lock")

    def _exchanged(self, name: str) -> errors.StoreFailed:
        reason = OSError(f"{name} was removed, renamed or replaced under its writer; open the log again")
        return self.poison("the directory", reason)

    def _names_taken(self) -> set[str]:
        """Names of segments that are there, and of those that an index knows though they are moved away just now."""
        indexes = self._files.list(f"{self._directory}/index")
        return {*self._files.list(self._directory), *(name.removesuffix(".idx") + ".log" for name in indexes)}

    def _renamed(self, sealed: Segment, name: str) -> bool:
        """Give the segment its dated name while we do not have it open where that forbids it (Windows)."""
        path = f"{self._directory}/{sealed.name}"
        if not self._files.pins_open_files:  # opened while it has its name: threads that read go on with the file
            self._handles.get(sealed)
        self._file.close()
        try:
            self._files.rename(path, f"{self._directory}/{name}")
        except PermissionError:
            self._file = self._files.open_write(path)
            with contextlib.suppress(OSError):
                self._files.unlink(f"{self._directory}/index/{name.removesuffix('.log')}.idx")
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
        """Give the files back. A clean close makes the mark durable, and the index if much of it is in memory alone."""
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


def following(after: Segment, handles: Handles, *, clock: Callable[[], int]) -> Segment:
    """The segment that follows another one, not yet on disk."""
    header = Header(
        store_id=after.header.store_id,
        segment_id=secrets.token_bytes(16),
        first_position=after.next_position,
        created=clock(),
        previous_id=after.header.segment_id,
        previous_end=after.end,
        profile=after.header.profile,
    )
    return Segment(segment.CURRENT, header, handles, end=segment.SIZE)
