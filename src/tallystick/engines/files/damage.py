"""What is left of a damaged log, segment by segment: runs of valid frames, and gaps between them.

Every frame of every segment is looked at, and nothing is changed. A segment that is missing, or that has lost its
header, gets its id and bounds from its neighbours and the synced mark. Valid frames of a file without a header count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.engines.files import frame as frames
from tallystick.engines.files import index_file, segment
from tallystick.engines.files.compressed import CompressedFile
from tallystick.engines.files.discovery import Discovery
from tallystick.engines.files.frame import Body, Frame
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.index_file import SealedIndex
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Segment
from tallystick.store.filesystem import File


class Run(msgspec.Struct, frozen=True):
    """Valid frames, one after the other: their offsets, and the positions that they cover."""

    begin: int
    end: int
    first: int
    next: int


class Gap(msgspec.Struct, frozen=True):
    """Positions that are lost. If the lost bytes held no event, `next` equals `first`."""

    first: int
    next: int


class SurveyedSegment(msgspec.Struct):
    """One segment as it should be, and what is left of it. Without a file all of it is lost."""

    header: Header
    name: str
    left: list[Run | Gap]
    file: File | None = None
    identity: bytes = b""
    item: Segment | None = None
    next_position: int = 0

    @property
    def is_damaged(self) -> bool:
        """Whether something of it is lost, even if only the header or the table of its compressed members."""
        lacks_table = isinstance(self.file, CompressedFile) and not self.file.has_table
        return self.item is None or lacks_table or any(isinstance(piece, Gap) for piece in self.left)

    @property
    def gaps(self) -> list[Gap]:
        """What is lost."""
        return [piece for piece in self.left if isinstance(piece, Gap)]

    def frames(self, run: Run) -> Iterator[tuple[Frame, Body]]:
        """The frames of a run."""
        assert self.file is not None
        for frame, data in Scanner(self.file, self.identity, offset=run.begin, end=run.end, position=run.first):
            yield frame, frames.decode_body(frame, data)


def survey(found: Discovery, handles: Handles, marked: SegmentMark | None) -> list[SurveyedSegment]:
    """Every segment in order, with those that are missing in their places."""
    parts: list[SurveyedSegment] = []
    expected, previous = 1, None
    for number, item in enumerate(found.segments):
        first = item.header.first_position
        linked = previous is None or item.header.previous_id == previous.header.segment_id
        if first < expected or (first == expected and not linked):
            reason = f"{item.name} does not follow the segment before it: a second writer or a restored copy"
            raise errors.Damaged(first=first, last=first, reason=reason)
        if first > expected:
            parts.append(_missing(found, handles, previous, item, expected, first))
        following = found.segments[number + 1] if number + 1 < len(found.segments) else None
        parts.append(_part(item, handles, marked, following))
        expected, previous = parts[-1].next_position, item
    if previous is not None and marked is not None and _is_missing(marked, found):
        parts.append(_missing_last(found, handles, previous, marked, expected))
    return parts


def _is_missing(marked: SegmentMark, found: Discovery) -> bool:
    """Whether the segment that was written last is gone, or has lost its header."""
    return all(item.header.segment_id != marked.segment_id for item in found.segments)


def _part(item: Segment, handles: Handles, marked: SegmentMark | None, following: Segment | None) -> SurveyedSegment:
    """A segment whose header is whole."""
    file, header = handles.get(item), item.header
    end, known_next = file.size(), item.known_next
    if header.ending is not None:
        end, known_next = header.ending.end, header.ending.next_position
    elif following is not None and following.header.previous_id == header.segment_id:
        end, known_next = following.header.previous_end, following.header.first_position
    elif item.base is not None:
        known_next = max(known_next, item.base.next_position)
    known_end = item.known_end
    if marked is not None and marked.segment_id == header.segment_id:
        known_next, known_end = max(known_next, marked.next_position), max(known_end, marked.end)
    left = runs_and_gaps(
        file, header.identity, begin=header.size, end=end, position=header.first_position, known_next=known_next
    )
    if _is_cut(left, known_end):
        left.append(Gap(known_next, known_next))
    next_position = left[-1].next if left else header.first_position
    return SurveyedSegment(header, item.name, left, file, header.identity, item, next_position)


def _is_cut(left: list[Run | Gap], known_end: int) -> bool:
    """Whether frames without events are missing at the end: all positions are there, but the segment ended later."""
    last = left[-1] if left else None
    return isinstance(last, Run) and last.end < known_end


def runs_and_gaps(
    file: File, identity: bytes, *, begin: int, end: int, position: int, known_next: int
) -> list[Run | Gap]:
    """Runs and gaps of a file. Bytes after the last valid frame are a gap only if it is known what they held."""
    left: list[Run | Gap] = []
    while begin < end:
        scanner = Scanner(file, identity, offset=begin, end=end, position=position)
        for _ in scanner:
            pass
        if scanner.offset > begin:
            left.append(Run(begin, scanner.offset, position, scanner.position or position))
        position = scanner.position or position
        if scanner.clean:
            break
        valid = next_valid_frame(file, identity, begin=scanner.offset + 1, end=end, position=position)
        if valid is None:
            break
        left.append(Gap(position, valid.first_position))
        begin, position = valid.offset, valid.first_position
    if position < known_next:
        left.append(Gap(position, known_next))
    return left


def _missing(
    found: Discovery, handles: Handles, previous: Segment | None, item: Segment, first: int, next_: int
) -> SurveyedSegment:
    """The segment that must have been before this one."""
    header = Header(
        store_id=item.header.store_id,
        segment_id=item.header.previous_id,
        first_position=first,
        created=previous.header.created if previous is not None else item.header.created,
        previous_id=previous.header.segment_id if previous is not None else segment.NO_SEGMENT,
        previous_end=previous.end if previous is not None else 0,
        profile=item.header.profile,
    )
    return _salvaged(found, handles, header, next_)


def _missing_last(
    found: Discovery, handles: Handles, previous: Segment, marked: SegmentMark, first: int
) -> SurveyedSegment:
    """The segment that the mark names, when it is gone."""
    header = Header(
        store_id=previous.header.store_id,
        segment_id=marked.segment_id,
        first_position=first,
        created=previous.header.created,
        previous_id=previous.header.segment_id,
        previous_end=previous.end,
        profile=previous.header.profile,
    )
    return _salvaged(found, handles, header, max(marked.next_position, first))


def _salvaged(found: Discovery, handles: Handles, header: Header, next_: int) -> SurveyedSegment:
    """What is left of a segment in a file whose header is damaged; nothing if there is no such file."""
    for name in found.headless:
        path = f"{handles.directory}/{name}"
        file = handles.files.open_read(path)
        for identity in {header.segment_id, _indexed_identity(handles, name)}:
            valid = next_valid_frame(file, identity, begin=0, end=file.size(), position=header.first_position)
            if valid is None or valid.first_position >= next_:
                continue
            left = runs_and_gaps(
                file,
                identity,
                begin=valid.offset,
                end=file.size(),
                position=valid.first_position,
                known_next=next_,
            )
            if valid.first_position > header.first_position:
                left.insert(0, Gap(header.first_position, valid.first_position))
            return SurveyedSegment(header, name, left, file, identity, None, left[-1].next)
        file.close()
    return SurveyedSegment(header, "", [Gap(header.first_position, next_)], next_position=next_)


def indexes(handles: Handles, store_id: bytes) -> list[SealedIndex]:
    """Every index that can be read. An index may outlive its segment."""
    found: list[SealedIndex] = []
    for name in handles.files.list(f"{handles.directory}/index"):
        file = handles.files.open_read(f"{handles.directory}/index/{name}")
        identity = index_file.identity_in(file)
        if identity is None:
            file.close()
            continue
        with contextlib.suppress(index_file.BadIndex):
            found.append(SealedIndex(file, handles.cache, store_id=store_id, identity=identity))
    return found


def _indexed_identity(handles: Handles, name: str) -> bytes:
    """The identity of the segment that an index file belongs to; `NO_SEGMENT` if it cannot be read."""
    path = f"{handles.directory}/index/{name.removesuffix('.log')}.idx"
    if not handles.files.exists(path):
        return segment.NO_SEGMENT
    with contextlib.closing(handles.files.open_read(path)) as file:
        return index_file.identity_in(file) or segment.NO_SEGMENT
