"""The index of a segment: everything in it follows from the segment and can be rebuilt from it.

While a segment grows, its index grows in memory (`GrowingIndex`). At sealing and at a clean close it is written to a
file, and then read in place (`SealedIndex`, in index_file.py). Both answer the same questions, with offsets of frames.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from tallystick.engines.files import side
from tallystick.engines.files.frame import Frame
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.side import SideRecords
from tallystick.event import canonical
from tallystick.event.model import Event, InRow, Row
from tallystick.store import leases
from tallystick.store.ledger import Head, Source

POSTING = struct.Struct(">QI")  # the first seq of a stream in a frame, and the frame's offset
FRAME_STEP_BYTES = 32 << 10  # frames are listed this far apart; what is between is scanned

CommandPlace: TypeAlias = tuple[int, int]
"""The offset of the frame that holds a command, and when it was recorded."""

FORGOTTEN: CommandPlace = (0, 0)  # no frame has this offset

FarRange: TypeAlias = tuple[str, int, int, int]
"""Stream, first and last seq of a command, and the offset of its frame, which does not hold all of these events."""

Named: TypeAlias = tuple[str, Head]
"""A stream and its end."""


class StreamEntry(msgspec.Struct, gc=False):
    """One stream in one segment: its end there, and the frames that hold it as packed postings."""

    head: Head
    postings: bytearray | bytes

    @property
    def first_seq(self) -> int:
        """The first seq of the stream that this segment holds."""
        return self._seq(0)

    def offsets(self, *, after: int, until: int | None) -> list[int]:
        """The offsets of the frames that may hold seqs with after < seq <= until, in order."""
        count = len(self.postings) // POSTING.size
        begin = max(bisect.bisect_right(range(count), after + 1, key=self._seq) - 1, 0)
        found = []
        for index in range(begin, count):
            seq, offset = POSTING.unpack_from(self.postings, index * POSTING.size)
            if until is not None and seq > until:
                break
            found.append(offset)
        return found

    def _seq(self, index: int) -> int:
        seq: int = POSTING.unpack_from(self.postings, index * POSTING.size)[0]
        return seq


class SegmentIndex(Protocol):
    """What can be asked of an index."""

    covered_end: int
    next_position: int

    def frame_before(self, position: int) -> tuple[int, int]:
        """The (first position, offset) of a frame at or before the one that holds a position."""

    def find(self, id_: bytes) -> int | None:
        """The offset of the frame with the event of this id."""

    def stream(self, name: str) -> StreamEntry | None: ...
    def names(self, after: str) -> Iterator[Named]:
        """The streams after a name, in order."""

    def each_id(self) -> Iterator[bytes]: ...
    def source(self, org: str, name: str) -> int: ...
    def lease(self, stream: str) -> leases.Lease | None: ...
    def lifecycle(self) -> Lifecycle: ...
    def command(self, digest: bytes) -> CommandPlace | None:
        """Where the command with this digest is; FORGOTTEN if it was forgotten here."""

    def commands(self) -> Iterator[tuple[bytes, CommandPlace]]:
        """Every command that was made or forgotten here, in no order."""

    def far_ranges(self) -> list[FarRange]: ...
    def is_gone(self, id_: bytes) -> bool:
        """Whether an event of this id was left out when its frame was written again."""


class GrowingIndex:
    """The index of frames from some offset of a segment on, in memory."""

    def __init__(self, *, begin: int, position: int) -> None:
        self.begin = begin
        self.covered_end = begin
        self.next_position = position
        self.positions = array("Q")
        self.offsets = array("Q")
        self._last = (position, begin)  # the newest frame, which is asked for most
        self.ids = bytearray()  # rising ids, 16 bytes each
        self.id_offsets = array("I")
        self.strays: dict[bytes, int] = {}  # ids that came out of order
        self.streams: dict[str, StreamEntry] = {}
        self.sources: dict[side.SourceKey, int] = {}
        self.leases: dict[str, leases.Lease] = {}
        self.life = Lifecycle()
        self.made: dict[bytes, CommandPlace] = {}
        self.far: list[FarRange] = []
        self.gone: set[bytes] = set()
        self._names: list[str] = []  # in order, as of the last question
        self.added = 0  # events
        self._last_id = b""

    def add(
        self,
        frame: Frame,
        rows: Sequence[Row],
        heads: dict[str, Head],
        sources: Mapping[Source, int],
        records: SideRecords,
    ) -> None:
        """Index a frame that was just written or scanned."""
        offset = frame.offset
        if not self.offsets or offset - self.offsets[-1] >= FRAME_STEP_BYTES:
            self.positions.append(frame.first_position)
            self.offsets.append(offset)
        ids = [row[InRow.id] for row in rows]
        first_seqs = {row[InRow.stream]: row[InRow.seq] for row in reversed(rows)}
        self._add_ids(ids, offset)
        self.added += len(ids)
        for stream, seq in first_seqs.items():
            entry = self.streams.get(stream)
            if entry is None:
                self.streams[stream] = StreamEntry(heads[stream], bytearray(POSTING.pack(seq, offset)))
            else:
                entry.postings += POSTING.pack(seq, offset)
                entry.head = heads[stream]
        self.sources |= dict(sources.items())
        if records is not side.NOTHING:
            self._add_records(records, first_seqs, offset)
        self._last = (frame.first_position, offset)
        self.covered_end = frame.end
        self.next_position = frame.next_position

    def _add_records(self, records: SideRecords, first_seqs: dict[str, int], offset: int) -> None:
        self.leases |= {lease.stream: lease for lease in records.leases}
        self.life.apply(records)
        for end in (end for loss in records.losses for end in loss.ends):  # later events may continue from there
            head, entry = Head(end.seq, end.link, end.org), self.streams.get(end.stream)
            if entry is None:
                self.streams[end.stream] = StreamEntry(head, bytearray())
            elif entry.head.seq < end.seq:
                entry.head = head
        for source, seq in records.sources:
            self.sources[source] = max(seq, self.sources.get(source, 0))
        self.gone.update(records.gone)
        for command in records.commands:
            self.made[side.digest(command.key)] = (offset, command.recorded)
            self.far += [
                (stream, first, last, offset)
                for stream, first, last in command.ranges
                if first < first_seqs.get(stream, last + 1)  # a retry: its events were recorded before
            ]
        self.made |= dict.fromkeys(records.forgotten, FORGOTTEN)

    def _add_ids(self, ids: list[bytes], offset: int) -> None:
        if ids and ids[0] > self._last_id and all(map(operator.lt, ids, ids[1:])):
            self._last_id = ids[-1]
            self.ids += b"".join(ids)  # before the offsets: their number says to readers how many ids there are
            self.id_offsets.extend([offset] * len(ids))
        else:
            self.strays |= dict.fromkeys(ids, offset)

    def frame_before(self, position: int) -> tuple[int, int]:
        last = self._last
        if self.positions and position >= last[0]:
            return last
        index = bisect.bisect_right(self.positions, position) - 1
        return (self.positions[index], self.offsets[index]) if index >= 0 else (0, 0)

    @property
    def repeated(self) -> bool:
        """Whether an id is in two places."""
        return self.added != len({id_ for id_, _ in self.all_ids()})

    def find(self, id_: bytes) -> int | None:
        count = len(self.id_offsets)
        index = bisect.bisect_left(range(count), id_, key=lambda at: bytes(self.ids[16 * at : 16 * at + 16]))
        if index < count and self.ids[16 * index : 16 * index + 16] == id_:
            return self.id_offsets[index]
        return self.strays.get(id_)

    def all_ids(self) -> Iterator[tuple[bytes, int]]:
        """Every id with its frame's offset, in no order."""
        ids = bytes(self.ids)
        for index, offset in enumerate(self.id_offsets):
            yield ids[16 * index : 16 * index + 16], offset
        yield from self.strays.items()

    def each_id(self) -> Iterator[bytes]:
        return (id_ for id_, _ in self.all_ids())

    def stream(self, name: str) -> StreamEntry | None:
        return self.streams.get(name)

    def names(self, after: str) -> Iterator[Named]:
        names = self._names
        if len(names) != len(self.streams):
            names = self._names = sorted(self.streams)
        following = itertools.islice(names, bisect.bisect_right(names, after), None)
        return ((name, self.streams[name].head) for name in following)

    def source(self, org: str, name: str) -> int:
        return side.last_of(self.sources, org, name)

    def lease(self, stream: str) -> leases.Lease | None:
        return self.leases.get(stream)

    def lifecycle(self) -> Lifecycle:
        return self.life

    def command(self, digest: bytes) -> CommandPlace | None:
        return self.made.get(digest)

    def commands(self) -> Iterator[tuple[bytes, CommandPlace]]:
        return iter(list(self.made.items()))

    def far_ranges(self) -> list[FarRange]:
        return self.far

    def is_gone(self, id_: bytes) -> bool:
        return id_ in self.gone


def facts_of(events: Sequence[Event], org_before: dict[str, str | None]) -> tuple[dict[str, Head], dict[Source, int]]:
    """The heads and source sequences that follow from scanned events, given the orgs of their streams before them."""
    heads: dict[str, Head] = {}
    sources: dict[Source, int] = {}
    for event in events:
        known = heads.get(event.stream)
        org = known.org if known else org_before.get(event.stream)
        meta: dict[str, Any] | None = None
        if b'"org":' in event.meta or b'"source_seq":' in event.meta:
            meta = canonical.decode(event.meta)
            org = org or meta.get("org")
            if "source_seq" in meta and "source" in meta:
                sources[meta.get("org", ""), meta["source"]] = meta["source_seq"]
        heads[event.stream] = Head(event.seq, event.link, org)
    return heads, sources
