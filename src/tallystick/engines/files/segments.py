"""A segment as an open log holds it: its header, where it ends, and its index.

- Segments are a tuple in order of their positions. It is replaced as a whole, so that readers need no lock.
- The index is in two parts: a file, and what has grown in memory since. Both are replaced in one step.
- An index never leads: what it points at lies before the end of the segment, and was valid when it was indexed.
- An index file that is missing or bad is rebuilt from the segment.
"""

from __future__ import annotations

import bisect
import functools
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias, TypeVar

from tallystick.engines.files import frame as frames
from tallystick.engines.files import index, index_file, index_writer, lifecycle, segment, side
from tallystick.engines.files.frame import Frame
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.index import CommandPlace, FarRange, GrowingIndex, Named, SegmentIndex, StreamEntry
from tallystick.engines.files.index_file import SealedIndex, SectionCache
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segment_tags import SegmentTags
from tallystick.engines.files.segment_tags import name_of as tags_name_of
from tallystick.event.model import Row
from tallystick.store import leases
from tallystick.store.filesystem import File, open_replaceable, replace_file
from tallystick.store.ledger import Head, Source
from tallystick.store.page import Hole

T = TypeVar("T")


class Segment:
    """One segment of an open log."""

    def __init__(self, name: str, header: Header, handles: Handles, *, end: int) -> None:
        self.name = name
        self.header = header
        self.identity = header.identity
        self.end = end
        self._use_index(None, None)
        self.rebuilt = False
        self.gaps: list[Hole] = []  # damaged when the index was made: it does not know these positions
        self.known_end, self.known_next = 0, 0  # how far an index reached that is longer than the segment is now
        self.org_before: Callable[[str], str | None] = lambda stream: None  # the org of a stream in older segments
        self._listener: Callable[[side.SideRecords], None] = lambda records: None
        self._heard_end = 0  # the listener was given the side records before this offset
        self._handles = handles
        self.tags = SegmentTags(self, handles)

    def _use_index(self, base: SealedIndex | None, grown: GrowingIndex | None) -> None:
        """Use a file and what has grown in memory. Questions see both replaced in one step."""
        self._index = (base, grown)
        self.base = base  # last: a thread that sees it finds the index that it belongs to

    @property
    def index_name(self) -> str:
        """The name of its index file."""
        return index_name_of(self.name)

    @property
    def next_position(self) -> int:
        """The position after the last one that is indexed."""
        base, grown = self._index
        if grown is not None:
            return grown.next_position
        return base.next_position if base is not None else self.header.first_position

    @property
    def covered_end(self) -> int:
        """How far the segment is indexed."""
        base, grown = self._index
        if grown is not None:
            return grown.covered_end
        return base.covered_end if base is not None else self.header.size

    def scanner(self) -> Scanner:
        """Walks over all frames of the segment, whatever the index says."""
        begin, position = self.header.size, self.header.first_position
        return Scanner(self._handles.get(self), self.identity, offset=begin, end=self.end, position=position)

    # --- questions -------------------------------------------------------------------------------------------------

    def frame_before(self, position: int) -> tuple[int, int]:
        """A (first position, offset) to scan from in order to reach a position."""
        found = self._ask(lambda parts: _first(part.frame_before(position) for part in reversed(parts)))
        return found if found is not None and found[1] else (self.header.first_position, self.header.size)

    def find(self, id_: bytes) -> int | None:
        """The offset of the frame with this event."""
        return self._ask(lambda parts: _first(part.find(id_) for part in reversed(parts)))

    def stream(self, name: str) -> StreamEntry | None:
        """What this segment knows of a stream."""
        return self._ask(lambda parts: _joined([part.stream(name) for part in parts]))

    def stream_head(self, name: str) -> Head | None:
        """The end of a stream in this segment."""
        entry = self.stream(name)
        return None if entry is None else entry.head

    def source(self, org: str, name: str) -> int:
        """The last sequence of a source in this segment."""
        return self._ask(lambda parts: max((part.source(org, name) for part in parts), default=0))

    def lease(self, stream: str) -> leases.Lease | None:
        """The last lease of a stream in this segment."""
        return self._ask(lambda parts: _first(part.lease(stream) for part in reversed(parts)))

    def lifecycle(self) -> Lifecycle:
        """What the frames of this segment did to events and snapshots."""
        return self._ask(lambda parts: lifecycle.merged(part.lifecycle() for part in parts))

    def command(self, digest: bytes) -> CommandPlace | None:
        """Where the newest command with this digest is in this segment; FORGOTTEN if it was forgotten here."""
        return self._ask(lambda parts: next((at for part in reversed(parts) if (at := part.command(digest))), None))

    def commands(self) -> dict[bytes, CommandPlace]:
        """Every command that was made or forgotten in this segment."""
        return self._ask(lambda parts: dict(chain.from_iterable(part.commands() for part in parts)))

    def far_ranges(self) -> list[FarRange]:
        """The ranges of commands whose events are in other frames."""
        return self._ask(lambda parts: [found for part in parts for found in part.far_ranges()])

    def is_gone(self, id_: bytes) -> bool:
        """Whether an event of this segment was left out when its frame was written again."""
        return self._ask(lambda parts: any(part.is_gone(id_) for part in parts))

    def ids(self) -> Iterator[bytes]:
        """Every event id of the segment, in no order."""
        return self._ask(lambda parts: chain.from_iterable([list(part.each_id()) for part in parts]))

    def id_bounds(self) -> tuple[bytes, bytes] | None:
        """The least and the greatest id; None if there are no ids."""
        ids = list(self.ids())
        return (min(ids), max(ids)) if ids else None

    def names(self, after: str) -> list[Iterator[Named]]:
        """The streams after a name with their ends: one ordered run for each part of the index, the newest last."""
        return [self._names(part, after) for part in self.parts()]

    def _names(self, part: SegmentIndex, after: str) -> Iterator[Named]:
        last = after
        try:
            for last, head in part.names(after):
                yield last, head
        except index_file.BadIndex:
            self.rebuild(instead_of=self.base)
            yield from self.grow().names(last)

    def parts(self) -> list[SegmentIndex]:
        """The parts of the index, in order of the log. If there are none, the index is built from the segment."""
        if self._index == (None, None) and self.end > self.header.size:
            self.rebuild(instead_of=None)
        return [part for part in self._index if part is not None]

    def _ask(self, question: Callable[[list[SegmentIndex]], T]) -> T:
        """Ask the index. If its file turns out to be bad, rebuild it and ask again."""
        base = self.base
        try:
            return question(self.parts())
        except index_file.BadIndex:
            self.rebuild(instead_of=base)
            return question(self.parts())

    def index_covers(self, hole: Hole) -> bool:
        """Whether the index was made while this range could be read: it says what streams and ids are in it."""
        self.parts()
        inside = self.header.first_position <= hole.first and hole.last < self.next_position
        return inside and not any(gap.first <= hole.last and hole.first <= gap.last for gap in self.gaps)

    # --- growth ----------------------------------------------------------------------------------------------------

    def grow(self) -> GrowingIndex:
        """The part of the index that is in memory. It begins where the file ends."""
        base, grown = self._index
        if grown is None:
            grown = GrowingIndex(begin=self.covered_end, position=self.next_position)
            self._use_index(base, grown)
        return grown

    def listen(self, listener: Callable[[side.SideRecords], None]) -> None:
        """Call the listener with the side records of each frame that is indexed from now on."""
        self._listener, self._heard_end = listener, self.covered_end

    def index_frame(
        self,
        frame: Frame,
        rows: Sequence[Row],
        heads: dict[str, Head],
        sources: Mapping[Source, int],
        records: side.SideRecords,
        *,
        grown: GrowingIndex | None = None,
    ) -> None:
        """Index the next frame. The listener hears of it before, and once, however often the frame is indexed."""
        if frame.offset >= self._heard_end:
            if records is not side.NOTHING:
                self._listener(records)
            self._heard_end = frame.end
        if grown is None or self.tags.takes_scanned:  # before the head moves: who sees an event finds its tags
            self.tags.add(frame, rows, records)
        (grown or self.grow()).add(frame, rows, heads, sources, records)

    def rebuild(self, *, instead_of: SealedIndex | None) -> None:
        """Rebuild the index from the segment, unless another thread did. The old one stays until that is done."""
        with self._handles.lock:
            if self.base is not instead_of:
                return
            self._index_again(self._handles.get(self), end=self.end)
            if self.covered_end < self.end:
                reason = f"{self.name} is damaged at byte {self.covered_end}"
                self.gaps.append(Hole(self.next_position, self.next_position, reason))
            for gap in self.gaps:
                self._handles.note_hole(gap)

    def _index_again(self, file: File, *, end: int) -> list[Hole]:
        grown = GrowingIndex(begin=self.header.size, position=self.header.first_position)
        found = _index_all(self, grown, file, end=end, base=None)
        self.gaps = list(found)
        self._use_index(None, grown)
        self.rebuilt = True
        return found

    def index_all(self, file: File, *, end: int) -> list[Hole]:
        """Index every valid frame up to `end` that is not indexed yet; returns the holes between them.

        Bytes after the last valid frame are not a hole: they may be a torn tail, which begins at `covered_end`.
        """
        if self.covered_end >= end:
            return []
        try:
            found = _index_all(self, self.grow(), file, end=end, base=self.base)
            self.gaps = [*self.gaps, *found]
            return found
        except index_file.BadIndex:
            return self._index_again(file, end=end)

    # --- the index file --------------------------------------------------------------------------------------------

    def load_index(self) -> bool:
        """Use the index file if there is a good one. It holds what had grown in memory before."""
        handles, path = self._handles, f"{self._handles.directory}/index/{self.index_name}"
        try:
            file = open_replaceable(handles.files, path)
            base = SealedIndex(file, handles.cache, store_id=self.header.store_id, identity=self.identity)
        except (index_file.BadIndex, OSError):
            return False
        if base.covered_end > self.end:  # the segment was longer when this index was written
            self.known_end, self.known_next = base.covered_end, base.next_position
            return False
        self._use_index(base, None)
        if self.name == segment.CURRENT:  # so that what follows can be added
            self.tags.load()
        return True

    def index_on_disk(self) -> SealedIndex | None:
        """The index file as it is on the disk now; None if there is no such file."""
        files, path = self._handles.files, f"{self._handles.directory}/index/{self.index_name}"
        if not files.exists(path):
            return None
        file = files.open_read(path)
        return SealedIndex(file, SectionCache(), store_id=self.header.store_id, identity=self.identity)

    def save_index(self, *, name: str | None = None) -> None:
        """Write the index and the tags of everything that is indexed, for a segment of this name.

        Each file is written whole or not at all. An index with gaps is not written.
        """
        try:
            data = self._encoded_index()
        except index_file.BadIndex:
            self.rebuild(instead_of=self.base)
            data = self._encoded_index()
        if self.gaps:
            return
        self.tags.save(name or self.name)
        index_name = index_name_of(name or self.name)
        replace_file(self._handles.files, f"{self._handles.directory}/index", index_name, data)

    def _encoded_index(self) -> bytes:
        store_id, identity = self.header.store_id, self.identity
        return index_writer.encode(self.base, self.grow(), store_id=store_id, identity=identity)


def index_name_of(segment_name: str) -> str:
    """The name of the index file of a segment."""
    return segment_name.removesuffix(".log") + ".idx"


def derived_names(segment_name: str) -> tuple[str, str]:
    """The names of the files that follow from a segment of this name: its index, and its tags."""
    return index_name_of(segment_name), tags_name_of(segment_name)


Segments: TypeAlias = tuple[Segment, ...]
"""Segments in order of their positions; the last one is written to."""


def _first(answers: Iterable[T | None]) -> T | None:
    """The first answer that is not empty."""
    return next((answer for answer in answers if answer is not None and answer != (0, 0)), None)


def _joined(entries: list[StreamEntry | None]) -> StreamEntry | None:
    """What the parts of an index know of a stream, as one."""
    known = [entry for entry in entries if entry is not None]
    if len(known) < 2:
        return known[0] if known else None
    return StreamEntry(known[-1].head, b"".join(bytes(entry.postings) for entry in known))


def _index_all(item: Segment, grown: GrowingIndex, file: File, *, end: int, base: SealedIndex | None) -> list[Hole]:
    holes: list[Hole] = []
    while not _index_run(item, grown, file, end=end, base=base):
        found = next_valid_frame(
            file, item.identity, begin=grown.covered_end + 1, end=end, position=grown.next_position
        )
        if found is None:
            break
        reason = f"{item.name} is damaged at byte {grown.covered_end}"
        holes.append(Hole(grown.next_position, max(found.first_position - 1, grown.next_position), reason))
        grown.covered_end, grown.next_position = found.offset, found.first_position
    return holes


def _index_run(item: Segment, grown: GrowingIndex, file: File, *, end: int, base: SealedIndex | None) -> bool:
    """Index frames up to the end, or to the first bytes that are not a frame; returns whether the end was reached."""
    scanner = Scanner(file, item.identity, offset=grown.covered_end, end=end, position=grown.next_position)
    for frame, data in scanner:
        body = frames.decode_body(frame, data)
        orgs = {name: _org(item, name, grown, base) for name in {event.stream for event in body.events}}
        heads, sources = index.facts_of(body.events, orgs)
        item.index_frame(
            frame, [event.row for event in body.events], heads, sources, side.decode(body.side), grown=grown
        )
    return scanner.clean


def _org(item: Segment, stream: str, grown: GrowingIndex, base: SealedIndex | None) -> str | None:
    """The org of a stream before the frame that is being indexed."""
    entry = grown.streams.get(stream)
    if entry is None and base is not None:
        entry = base.stream(stream)
    return item.org_before(stream) if entry is None else entry.head.org


def following(after: Segment, handles: Handles, *, clock: Callable[[], int]) -> Segment:
    """The segment that follows another one, which is not on disk yet."""
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


def index_of_position(segments: Segments, position: int) -> int:
    """The index of the segment that holds a position, or would hold it."""
    return max(bisect.bisect_right(segments, position, key=lambda item: item.header.first_position) - 1, 0)


def with_generation(segments: Segments, fresh: Segment, absorbed: Collection[bytes]) -> Segments:
    """The segments with a new generation of one of them in its place, and without those that it took in, by id."""
    left = [item for item in segments if item.header.segment_id not in absorbed]
    items = tuple(fresh if item.header.segment_id == fresh.header.segment_id else item for item in left)
    for number, item in enumerate(items):
        item.org_before = functools.partial(org_in, items[:number])
    return items


def org_in(older: Sequence[Segment], stream: str) -> str | None:
    """The org of a stream as these segments know it."""
    for item in reversed(older):
        entry = item.stream(stream)
        if entry is not None:
            return entry.head.org
    return None
