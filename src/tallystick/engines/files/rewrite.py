"""Writing a sealed segment again as its next generation: without what was pruned or erased, compressed, or refilled.

The new generation is written beside the old one as NAME.log.tmp, synced, read back and checked, and then renamed over
it. A crash leaves the old one or the new one, whole. The index follows: one that is of the other generation is bound to
another identity, is therefore not taken, and is made again. Readers that hold the old file open go on with it.

A frame of a rewritten segment still covers every position that it covered, though it may hold fewer events; frames
that are left without events are joined. What must outlive its event stays as a side record: its id ("gone") and the
sequence of its source ("source").
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
from tallystick.engines.files.scan import Scanner
from tallystick.engines.files.segment import Ending, Header
from tallystick.engines.files.segments import Segment
from tallystick.event import canonical
from tallystick.event.model import Event
from tallystick.store.filesystem import FULL, FileSystem
from tallystick.store.page import Hole

JOINED_RECORDS_MAX = 4096


class InUse(Exception):
    """A file cannot be replaced while somebody has it open (Windows): later."""


class Unreadable(Exception):
    """A segment cannot be rewritten, because not all of it can be read."""


class FrameDraft(msgspec.Struct):
    """A frame to be written: the positions it covers, and what is left of it."""

    first_position: int
    next_position: int
    recorded: int
    events: list[Event]
    side: list[Any]


class KeepFilter(Protocol):
    """Decides what a rewriting keeps."""

    def event(self, event: Event) -> Event | None:
        """The event as it shall be kept; None if it is left out."""

    def record(self, record: Any, offset: int) -> bool:
        """Whether a side record of the frame at an offset is kept."""


class KeepAll:
    """Keeps all: for compression alone."""

    def event(self, event: Event) -> Event | None:
        return event

    def record(self, record: Any, offset: int) -> bool:
        return True


def pieces_of(item: Segment, handles: Handles, remains: KeepFilter) -> Iterator[FrameDraft]:
    """The frames of a segment as they shall be kept; every one of them is verified on the way."""
    scanner = Scanner(
        handles.get(item),
        item.identity,
        offset=item.header.size,
        end=item.end,
        position=item.header.first_position,
    )
    yield from joined(piece_of(frame, frames.decode_body(frame, data), remains) for frame, data in scanner)
    if not scanner.clean:
        raise Unreadable(f"{item.name} is damaged at byte {scanner.offset}")


def piece_of(frame: Frame, body: frames.Body, remains: KeepFilter) -> FrameDraft:
    """One frame as it shall be kept."""
    kept: list[Event] = []
    gone: list[Event] = []
    for event in body.events:
        left = remains.event(event)
        if left is None:
            gone.append(event)
        else:
            kept.append(left)
    side = [record for record in body.side if remains.record(record, frame.offset)] + list(_left_behind(gone))
    return FrameDraft(frame.first_position, frame.next_position, body.recorded, kept, side)


def _left_behind(gone: list[Event]) -> Iterator[Any]:
    """What outlives events that are left out: their ids, and the last sequence of each source."""
    if gone:
        yield ("gone", b"".join(event.id for event in gone))
    sources: dict[side.Source, int] = {}
    for event in gone:
        if b'"source_seq":' in event.meta:
            meta = canonical.decode(event.meta)
            if "source" in meta and "source_seq" in meta:
                sources[meta.get("org", ""), meta["source"]] = meta["source_seq"]
    for (org, source), seq in sources.items():
        yield ("source", source, seq, org)


def joined(pieces: Iterable[FrameDraft]) -> Iterator[FrameDraft]:
    """Pieces, those that are left without events made one with their neighbours of the same kind."""
    waiting: FrameDraft | None = None
    for piece in pieces:
        if waiting is not None and (piece.events or waiting.events or len(waiting.side) >= JOINED_RECORDS_MAX):
            yield waiting
            waiting = None
        if waiting is None:
            waiting = piece
        else:
            waiting.next_position = piece.next_position
            waiting.side += piece.side
    if waiting is not None:
        yield waiting


class Rewriter:
    """Writes new generations into a log's directory. One at a time: its owner sees to that.

    `placed` is told of a segment as soon as it has its name, before anything else can fail.
    """

    def __init__(self, handles: Handles, *, placed: Callable[[Segment], None] = lambda fresh: None) -> None:
        self._handles = handles
        self._files: FileSystem = handles.files
        self._directory = handles.directory
        self._buffer = FrameBuffer()
        self._placed = placed

    def rewrite(self, item: Segment, remains: KeepFilter, *, encoding: int, erased: int) -> Segment:
        """The next generation of a sealed segment, in its place. What fails before that leaves the old one."""
        pieces, header = pieces_of(item, self._handles, remains), next_generation(item.header)
        return self.write(item.name, header, pieces, item.org_before, encoding=encoding, erased=erased, instead_of=item)

    def write(
        self,
        name: str,
        header: Header,
        pieces: Iterable[FrameDraft],
        org_before: Callable[[str], str | None],
        *,
        encoding: int = segment.PLAIN,
        erased: int = 0,
        instead_of: Segment | None = None,
    ) -> Segment:
        """Put a segment of these pieces in place under a name; `org_before` is what older segments know."""
        staged = f"{self._directory}/{name}.tmp"
        try:
            header = self._stage(staged, header, pieces, encoding=encoding, erased=erased)
            fresh = self._checked(name, staged, header, org_before)
            self._place(staged, name, fresh, instead_of)
        except BaseException as problem:
            with contextlib.suppress(OSError):
                self._files.unlink(staged)
            if isinstance(problem, OSError) and problem.errno in FULL:
                raise errors.NoSpace(needed=segment.SIZE_MAX, path=self._directory) from problem
            raise
        self._files.sync_dir(self._directory)
        with contextlib.suppress(PermissionError):  # somebody has the old index open: it is written at the next opening
            fresh.save_index()
            fresh.load_index()
        return fresh

    def _stage(
        self, staged: str, header: Header, pieces: Iterable[FrameDraft], *, encoding: int, erased: int
    ) -> Header:
        """Write the pieces, durably; returns the header with its ending."""
        file = self._files.create(staged)
        try:
            packer = Packer(file, header.identity, encoding=encoding)
            position = header.first_position
            for piece in pieces:
                assert piece.first_position == position <= piece.next_position
                position = piece.next_position
                deflate = encoding == segment.PLAIN  # many frames together compress better than each by itself
                packer.add(self._frame(piece, header.identity, packer.end, deflate=deflate))
            ending = Ending(end=packer.end, next_position=position, encoding=encoding, erased=erased)
            header = msgspec.structs.replace(header, ending=ending)
            packer.finish(header)
            return header
        finally:
            file.close()

    def _frame(self, piece: FrameDraft, identity: bytes, offset: int, *, deflate: bool) -> bytearray:
        count = piece.next_position - piece.first_position
        at = (identity, offset, piece.first_position)
        return self._buffer.encode(
            *at, piece.events, recorded=piece.recorded, side=piece.side, count=count, deflate=deflate
        )

    def _checked(self, name: str, staged: str, header: Header, org_before: Callable[[str], str | None]) -> Segment:
        """The staged segment, indexed from what is on disk: it must be whole before it takes a name."""
        assert header.ending is not None
        fresh = Segment(name, header, self._handles, end=header.ending.end)
        fresh.org_before = org_before
        file = as_plain(self._files.open_read(staged), header)
        try:
            holes: list[Hole] = fresh.index_all(file, end=fresh.end)
        finally:
            file.close()
        if holes or (fresh.covered_end, fresh.next_position) != (fresh.end, header.ending.next_position):
            raise OSError(f"{staged} does not read back as it was written")
        return fresh

    def _place(self, staged: str, name: str, fresh: Segment, instead_of: Segment | None) -> None:
        """Give the file its name and tell of it in one: a reader that finds another file there asks under this lock."""
        with self._handles.lock:
            if instead_of is not None:
                self._handles.release(instead_of)  # where an open file cannot be replaced, we must not be the one
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
