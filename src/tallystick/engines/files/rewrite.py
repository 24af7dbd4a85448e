"""Writing a sealed segment again as its next generation: without pruned or erased events, compressed, or refilled.

- The new generation is staged as NAME.log.tmp, synced, read back and checked, and then renamed over the old one. A
  crash leaves the old one or the new one, whole. Readers that hold the old file open finish with it.
- The index follows. An index of the other generation is bound to another identity, so it is not used, and is rebuilt.
- A frame of a rewritten segment covers every position that it covered before, though it may hold fewer events. Frames
  without events are joined.
- What must outlive its event stays as a side record: its id ("gone"), its type, org and tags ("kept"), and the sequence
  of its source ("source").
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from tallystick import errors
from tallystick.engines.files import frame as frames
from tallystick.engines.files import segment, side
from tallystick.engines.files.compressed import Packer, as_plain
from tallystick.engines.files.frame import Frame, FrameBuffer
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.segment import Ending, Header
from tallystick.engines.files.segments import Segment
from tallystick.event import canonical
from tallystick.event.model import Event
from tallystick.store.filesystem import FULL, FileSystem
from tallystick.store.maintenance import kept_of
from tallystick.store.page import Hole

JOINED_RECORDS_MAX = 4096


class InUse(Exception):
    """A file cannot be replaced now, because it is open elsewhere (Windows)."""


class Unreadable(Exception):
    """A segment cannot be rewritten, because not all of it can be read."""


class FrameDraft(msgspec.Struct):
    """A frame to be written: the positions that it covers, and what it keeps."""

    first_position: int
    next_position: int
    recorded: int
    events: list[Event]
    side: list[Any]


class KeepFilter(Protocol):
    """Decides what a new generation keeps."""

    def event(self, event: Event) -> Event | None:
        """The event as it is kept; None if it is left out."""

    def record(self, record: Any, offset: int) -> bool:
        """Whether a side record of the frame at an offset is kept."""


class KeepAll:
    """Keeps everything, when a segment is only compressed."""

    def event(self, event: Event) -> Event | None:
        return event

    def record(self, record: Any, offset: int) -> bool:
        return True


def frames_of(item: Segment, keep: KeepFilter) -> Iterator[FrameDraft]:
    """The frames of a segment as they are kept. Each frame is verified when it is read."""
    scanner = item.scanner()
    yield from with_empty_joined(kept_frame(frame, frames.decode_body(frame, data), keep) for frame, data in scanner)
    if not scanner.clean:
        raise Unreadable(f"{item.name} is damaged at byte {scanner.offset}")


def kept_frame(frame: Frame, body: frames.Body, keep: KeepFilter) -> FrameDraft:
    """One frame as it is kept."""
    kept: list[Event] = []
    gone: list[Event] = []
    for event in body.events:
        left = keep.event(event)
        if left is None:
            gone.append(event)
        else:
            kept.append(left)
    side = [record for record in body.side if keep.record(record, frame.offset)] + list(_left_behind(gone))
    return FrameDraft(frame.first_position, frame.next_position, body.recorded, kept, side)


def _left_behind(gone: list[Event]) -> Iterator[Any]:
    """What outlives events: their ids, what queries ask of them, and the last sequence of each source."""
    yield from side.gone_records(list(map(kept_of, gone)))
    sources: dict[side.SourceKey, int] = {}
    for event in gone:
        if b'"source_seq":' in event.meta:
            meta = canonical.decode(event.meta)
            if "source" in meta and "source_seq" in meta:
                sources[meta.get("org", ""), meta["source"]] = meta["source_seq"]
    for (org, source), seq in sources.items():
        yield ("source", source, seq, org)


def with_empty_joined(drafts: Iterable[FrameDraft]) -> Iterator[FrameDraft]:
    """The same frames, with neighbours that have no events joined into one."""
    waiting: FrameDraft | None = None
    for draft in drafts:
        if waiting is not None and (draft.events or waiting.events or len(waiting.side) >= JOINED_RECORDS_MAX):
            yield _with_gone_joined(waiting)
            waiting = None
        if waiting is None:
            waiting = draft
        else:
            waiting.next_position = draft.next_position
            waiting.side += draft.side
    if waiting is not None:
        yield _with_gone_joined(waiting)


def _with_gone_joined(draft: FrameDraft) -> FrameDraft:
    draft.side = side.with_gone_joined(draft.side)
    return draft


class Rewriter:
    """Writes new generations into a log's directory, one at a time.

    `placed` is called with a segment as soon as it has its name, before anything else can fail.
    """

    def __init__(self, handles: Handles, *, placed: Callable[[Segment], None] = lambda fresh: None) -> None:
        self._handles = handles
        self._files: FileSystem = handles.files
        self._directory = handles.directory
        self._buffer = FrameBuffer()
        self._placed = placed

    def rewrite(self, item: Segment, keep: KeepFilter, *, encoding: int, erased: int) -> Segment:
        """Replace a sealed segment with its next generation. A failure before the rename leaves the old one."""
        drafts, header = frames_of(item, keep), next_generation(item.header)
        return self.write(item.name, header, drafts, item.org_before, encoding=encoding, erased=erased, instead_of=item)

    def write(
        self,
        name: str,
        header: Header,
        drafts: Iterable[FrameDraft],
        org_before: Callable[[str], str | None],
        *,
        encoding: int = segment.PLAIN,
        erased: int = 0,
        instead_of: Segment | None = None,
    ) -> Segment:
        """Put a segment of these drafts in place under a name; `org_before` is what older segments know."""
        staged = f"{self._directory}/{name}.tmp"
        try:
            header = self._stage(staged, header, drafts, encoding=encoding, erased=erased)
            fresh = self._checked(name, staged, header, org_before)
            self._place(staged, name, fresh, instead_of)
        except BaseException as problem:
            with contextlib.suppress(OSError):
                self._files.unlink(staged)
            if isinstance(problem, OSError) and problem.errno in FULL:
                raise errors.NoSpace(needed=segment.SIZE_MAX, path=self._directory) from problem
            raise
        self._files.sync_dir(self._directory)
        with contextlib.suppress(PermissionError):  # the old index is open elsewhere: it is written at the next opening
            fresh.save_index()
            fresh.load_index()
            fresh.tags.load()
        return fresh

    def _stage(
        self, staged: str, header: Header, drafts: Iterable[FrameDraft], *, encoding: int, erased: int
    ) -> Header:
        """Write the drafts, durably; returns the header with its ending."""
        with contextlib.closing(self._files.create(staged)) as file:
            packer = Packer(file, header.identity, encoding=encoding)
            position = header.first_position
            for draft in drafts:
                assert draft.first_position == position <= draft.next_position
                position = draft.next_position
                deflate = encoding == segment.PLAIN  # many frames together compress better than one by one
                packer.add(self._frame(draft, header.identity, packer.end, deflate=deflate))
            ending = Ending(end=packer.end, next_position=position, encoding=encoding, erased=erased)
            header = msgspec.structs.replace(header, ending=ending)
            packer.finish(header)
            return header

    def _frame(self, draft: FrameDraft, identity: bytes, offset: int, *, deflate: bool) -> bytearray:
        count = draft.next_position - draft.first_position
        at = (identity, offset, draft.first_position)
        return self._buffer.encode(
            *at, draft.events, recorded=draft.recorded, side=draft.side, count=count, deflate=deflate
        )

    def _checked(self, name: str, staged: str, header: Header, org_before: Callable[[str], str | None]) -> Segment:
        """The staged segment, indexed from the disk: it must be whole before it takes a name."""
        assert header.ending is not None
        fresh = Segment(name, header, self._handles, end=header.ending.end)
        fresh.org_before = org_before
        with contextlib.closing(as_plain(self._files.open_read(staged), header)) as file:
            holes: list[Hole] = fresh.index_all(file, end=fresh.end)
        if holes or (fresh.covered_end, fresh.next_position) != (fresh.end, header.ending.next_position):
            raise OSError(f"{staged} does not read back as it was written")
        return fresh

    def _place(self, staged: str, name: str, fresh: Segment, instead_of: Segment | None) -> None:
        """Rename the file and call `placed` under one lock: a reader that finds another file asks under this lock."""
        with self._handles.lock:
            if instead_of is not None:
                self._handles.release(
                    instead_of
                )  # an open file may not be replaceable, and this process must not hold it
            self._rename(staged, name)
            self._placed(fresh)

    def _rename(self, staged: str, name: str) -> None:
        try:
            self._files.rename(staged, f"{self._directory}/{name}")
        except PermissionError as problem:
            raise InUse(name) from problem


def encoding_of(header: Header) -> int:
    """How a segment is stored."""
    return header.ending.encoding if header.ending is not None else segment.PLAIN


def next_generation(header: Header) -> Header:
    """The header of the next generation of a segment, without its ending."""
    if header.generation >= segment.GENERATION_MAX:
        raise Unreadable("it has been rewritten as often as can be counted")
    return msgspec.structs.replace(header, generation=header.generation + 1, ending=None, short_frames=True)
