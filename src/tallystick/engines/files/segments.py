"""A segment as the engine holds it, and the ordered set of them."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TypeVar

from tallystick.engines.files import frame as frames
from tallystick.engines.files import index, index_file, segment
from tallystick.engines.files.index import GrowingIndex, SegmentIndex, StreamEntry
from tallystick.engines.files.index_file import SealedIndex, SectionCache
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.engines.files.segment import Header
from tallystick.store import leases
from tallystick.store.filesystem import File, FileSystem, replace_file
from tallystick.store.ledger import Head
from tallystick.store.page import Hole

OPEN_FILES_MAX = 200
T = TypeVar("T")


class Handles:
    """Open segment files, bounded in number. One that falls out closes when its last reader lets go of it."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.files = files
        self.directory = directory
        self._open: OrderedDict[bytes, File] = OrderedDict()

    def get(self, item: Segment) -> File:
        """The segment's file, opened by its identity: a name may meanwhile belong to another segment."""
        file = self._open.get(item.header.segment_id)
        if file is None:
            file = self.files.open_read(f"{self.directory}/{item.name}")
            header = segment.decode(file.read_at(0, segment.SIZE), path=item.name)
            if header.segment_id != item.header.segment_id:
                file.close()
                raise Renamed(item.name)
            self.keep(item, file)
        return file

    def keep(self, item: Segment, file: File) -> None:
        """Remember an open file."""
        self._open[item.header.segment_id] = file
        if len(self._open) > OPEN_FILES_MAX:
            self._open.popitem(last=False)

    def close(self) -> None:
        """Close all files now: a directory must be free to be moved or unmounted when its log is closed."""
        while self._open:
            self._open.popitem()[1].close()


class Renamed(Exception):
    """A segment is no longer under the name it had: look at the directory again."""


class Segment:
    """One segment: its header, where it ends, and its index (a file, what has grown since, or both).

    The index is rebuilt from the segment when its file turns out to be missing or bad.
    """

    def __init__(self, name: str, header: Header, handles: Handles, *, end: int) -> None:
        self.name = name
        self.header = header
        self.end = end
        self.base: SealedIndex | None = None
        self.grown: GrowingIndex | None = None
        self.rebuilt = False
        self.org_before: Callable[[str], str | None] = lambda stream: None  # what older segments know
        self._handles = handles

    @property
    def index_name(self) -> str:
        """The name of its index file."""
        return self.name.removesuffix(".log") + ".idx"

    @property
    def next_position(self) -> int:
        """The position behind the last one that is indexed."""
        if self.grown is not None:
            return self.grown.next_position
        return self.base.next_position if self.base is not None else self.header.first_position

    @property
    def covered_end(self) -> int:
        """How far the segment is indexed."""
        if self.grown is not None:
            return self.grown.covered_end
        return self.base.covered_end if self.base is not None else segment.SIZE

    # --- questions -------------------------------------------------------------------------------------------------

    def frame_before(self, position: int) -> tuple[int, int]:
        """A (first position, offset) to scan from in order to reach a position."""
        for part in reversed(self.parts()):
            first, offset = self._ask(part, lambda part: part.frame_before(position), (0, 0))
            if offset:
                return first, offset
        return self.header.first_position, segment.SIZE

    def find(self, id_: bytes) -> int | None:
        """The offset of the frame with this event."""
        for part in reversed(self.parts()):
            offset = self._ask(part, lambda part: part.find(id_), None)
            if offset is not None:
                return offset
        return None

    def stream(self, name: str) -> StreamEntry | None:
        """What this segment knows of a stream."""
        found: StreamEntry | None = None
        for part in self.parts():
            entry = self._ask(part, lambda part: part.stream(name), None)
            if entry is not None:
                found = entry if found is None else StreamEntry(entry.head, bytes(found.postings) + entry.postings)
        return found

    def stream_head(self, name: str) -> Head | None:
        """The end of a stream in this segment."""
        entry = self.stream(name)
        return None if entry is None else entry.head

    def source(self, name: str) -> int:
        """The last sequence of a source in this segment."""
        return max((self._ask(part, lambda part: part.source(name), 0) for part in self.parts()), default=0)

    def lease(self, stream: str) -> leases.Lease | None:
        """The last lease of a stream in this segment."""
        for part in reversed(self.parts()):
            lease = self._ask(part, lambda part: part.lease(stream), None)
            if lease is not None:
                return lease
        return None

    def names(self, after: str) -> list[Iterator[str]]:
        """The stream names behind `after`, one ordered run a part."""
        return [self._names(part, after) for part in self.parts()]

    def _names(self, part: SegmentIndex, after: str) -> Iterator[str]:
        last = after
        try:
            for last in part.names(after):
                yield last
        except index_file.BadIndex:
            self.rebuild()
            yield from self.grow().names(last)

    def parts(self) -> list[SegmentIndex]:
        """The parts of the index, in order of the log; built from the segment if there are none."""
        if self.base is None and self.grown is None and self.end > segment.SIZE:
            self.rebuild()
        return [part for part in (self.base, self.grown) if part is not None]

    def _ask(self, part: SegmentIndex, question: Callable[[SegmentIndex], T], nothing: T) -> T:
        """Put a question to a part. If its file is bad, the rebuilt index answers for the whole segment."""
        try:
            return question(part)
        except index_file.BadIndex:
            if part is self.base:
                self.rebuild()
            return question(self.grown) if self.grown is not None else nothing

    # --- growth ----------------------------------------------------------------------------------------------------

    def grow(self) -> GrowingIndex:
        """The part of the index in memory, begun where the file ends."""
        if self.grown is None:
            self.grown = GrowingIndex(begin=self.covered_end, position=self.next_position)
        return self.grown

    def rebuild(self) -> None:
        """Make the index again from the segment. Until all of it is made, the old one stays."""
        grown = GrowingIndex(begin=segment.SIZE, position=self.header.first_position)
        _index_all(self, grown, self._handles.get(self), end=self.end, base=None)
        self.base, self.grown, self.rebuilt = None, grown, True

    def index_all(self, file: File, *, end: int) -> list[Hole]:
        """Index every valid frame up to `end` that is not indexed yet; returns the holes between them.

        What follows the last valid frame is no hole here: it may be a torn tail. `covered_end` says where it begins.
        """
        return _index_all(self, self.grow(), file, end=end, base=self.base)

    # --- the index file --------------------------------------------------------------------------------------------

    def load_index(self, cache: SectionCache) -> bool:
        """Use the index file if there is a good one; what had grown before is in it."""
        files, path = self._handles.files, f"{self._handles.directory}/index/{self.index_name}"
        if not files.exists(path):
            return False
        try:
            file = files.open_read(path)
            base = SealedIndex(file, cache, store_id=self.header.store_id, segment_id=self.header.segment_id)
        except (index_file.BadIndex, OSError):
            return False
        if base.covered_end > self.end:
            return False
        self.base, self.grown = base, None
        return True

    def save_index(self, *, name: str | None = None) -> None:
        """Write the index of everything that is indexed, whole or not at all."""
        try:
            data = self._encoded_index()
        except index_file.BadIndex:
            self.rebuild()
            data = self._encoded_index()
        replace_file(self._handles.files, f"{self._handles.directory}/index", name or self.index_name, data)

    def _encoded_index(self) -> bytes:
        header = self.header
        return index_file.encode(self.base, self.grow(), store_id=header.store_id, segment_id=header.segment_id)


def _index_all(item: Segment, grown: GrowingIndex, file: File, *, end: int, base: SealedIndex | None) -> list[Hole]:
    holes: list[Hole] = []
    while not _index_run(item, grown, file, end=end, base=base):
        behind = next_valid_frame(
            file, item.header.segment_id, begin=grown.covered_end + 1, end=end, position=grown.next_position
        )
        if behind is None:
            break
        reason = f"{item.name} is damaged at byte {grown.covered_end}"
        holes.append(Hole(grown.next_position, max(behind.first_position - 1, grown.next_position), reason))
        grown.covered_end, grown.next_position = behind.offset, behind.first_position
    return holes


def _index_run(item: Segment, grown: GrowingIndex, file: File, *, end: int, base: SealedIndex | None) -> bool:
    """Index frames until the end or the first bytes that are none; says whether it reached the end."""
    scanner = Scanner(file, item.header.segment_id, offset=grown.covered_end, end=end, position=grown.next_position)
    for frame, data in scanner:
        body = frames.decode_body(data)
        orgs = {name: _org(item, name, grown, base) for name in {event.stream for event in body.events}}
        heads, sources = index.facts_of(body.events, orgs)
        grown.add(
            [event.row for event in body.events],
            heads,
            offset=frame.offset,
            end=frame.end,
            position=frame.first_position,
            sources=sources,
            taken=index.leases_of(body.side),
        )
    return scanner.clean


def _org(item: Segment, stream: str, grown: GrowingIndex, base: SealedIndex | None) -> str | None:
    """The org of a stream before the frame that is being indexed."""
    entry = grown.streams.get(stream)
    if entry is None and base is not None:
        entry = base.stream(stream)
    return item.org_before(stream) if entry is None else entry.head.org


class SegmentSet:
    """Segments in order of their positions. Replaced as a whole when it changes, so readers need no lock."""

    def __init__(self, items: list[Segment]) -> None:
        self.items = items
        self._firsts = [item.header.first_position for item in items]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def last(self) -> Segment:
        """The segment that is written to."""
        return self.items[-1]

    def number_of(self, position: int) -> int:
        """The number of the segment that holds a position, or would."""
        return max(bisect.bisect_right(self._firsts, position) - 1, 0)
