"""The tags of the events of a segment: which events have a type and a tag, and between which positions each type is.

Everything in it follows from the segment. While a segment grows, this is in memory (`GrowingTags`); tag_file.py has the
same as a file. Both answer with places: the position of an event, and the offset of its frame. The offset is 0 if the
event was pruned and is no longer in its frame.

A key is a tag, followed by seven characters for its kind: the type of an event and the org in its meta. So the events
of one key have the same type and org, and no event has to be read to decide whether it matches.
"""

from __future__ import annotations

import bisect
import heapq
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tallystick.engines.files import side
from tallystick.engines.files.frame import Frame
from tallystick.engines.files.side import SideRecords
from tallystick.event import tags
from tallystick.event.model import InRow, Row
from tallystick.store.maintenance import PrunedEvent
from tallystick.store.query import Item, Query

PLACE = struct.Struct(">QI")
KIND_SIZE = 7  # characters of a key that follow the tag
UNKNOWN = ""  # the type of events that an earlier version pruned: they may have had any

_MARK = b'"tags"'
_OFFSET_BITS = 32
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class Place(NamedTuple):
    """Where an event is."""

    position: int
    offset: int


TypeRange: TypeAlias = list[int]
"""The first and the last position of the events of one type."""

Kinds: TypeAlias = Mapping[str, Mapping[str | None, str]]
"""For each type and org the end of the keys of its events."""


class Places(Protocol):
    """The places of one key, ascending."""

    def __len__(self) -> int:
        """How many there are, or a bound of it: the shortest of several is read."""

    def after(self, position: int) -> Iterator[Place]:
        """Those past a position."""

    def has(self, position: int) -> bool: ...


class TagPart(Protocol):
    """What can be asked of the tags of a part of a segment."""

    begin_position: int
    covered_end: int
    next_position: int

    def type_ranges(self) -> Mapping[str, TypeRange]: ...
    def kinds_of(self, tag: str, types: Sequence[str], org: str | None) -> Iterable[str]:
        """The kinds that a tag may have here, of these types (any, if none is given) and this org (any, if None)."""

    def places(self, tag: str, kind: str) -> Places | None: ...
    def kinds(self) -> Kinds: ...
    def entries(self) -> Iterator[tuple[str, bytes]]:
        """Every key in order, and its places, packed."""


class PackedPlaces:
    """Places in memory, packed. A writer may add to them meanwhile."""

    def __init__(self, packed: bytes | bytearray) -> None:
        self._packed = packed
        self._count = len(packed) // PLACE.size

    def __len__(self) -> int:
        return self._count

    def after(self, position: int) -> Iterator[Place]:
        return map(self._at, range(self._index_after(position), self._count))

    def has(self, position: int) -> bool:
        index = self._index_after(position - 1)
        return index < self._count and self._at(index).position == position

    def _index_after(self, position: int) -> int:
        return bisect.bisect_right(range(self._count), position, key=self._position_at)

    def _position_at(self, index: int) -> int:
        found: int = PLACE.unpack_from(self._packed, index * PLACE.size)[0]
        return found

    def _at(self, index: int) -> Place:
        return Place._make(PLACE.unpack_from(self._packed, index * PLACE.size))


class GrowingTags:
    """The tags of the frames of a segment from some offset on, in memory."""

    def __init__(self, *, begin: int, position: int) -> None:
        self.begin_position = position
        self.covered_end = begin
        self.next_position = position
        self._types: dict[str, TypeRange] = {}
        self._kinds: dict[str, dict[str | None, str]] = {}
        self._kind_count = 0
        self._places: dict[str, int | bytearray] = {}  # a number while a key has one place

    def add(self, frame: Frame, rows: Sequence[Row], records: SideRecords) -> None:
        """Add a frame that was just written or scanned."""
        if records.gone or records.kept:
            self._add_with_pruned(frame, rows, records)
        else:
            for row in rows:
                self._note_type(row[InRow.type], row[InRow.position])
                meta = row[InRow.meta]
                if _MARK in meta:
                    found = tags.tagged(meta)
                    self._note_tags(row[InRow.type], found.org, found.tags, row[InRow.position], frame.offset)
        self.covered_end, self.next_position = frame.end, frame.next_position

    def _add_with_pruned(self, frame: Frame, rows: Sequence[Row], records: SideRecords) -> None:
        """Add a frame from which events were left out: all of them in order of position."""
        present = {row[InRow.position] for row in rows}
        covered = range(frame.first_position, frame.next_position)
        gone = [(each, 0) for each in side.left_out(covered, present, records)]
        for each, offset in sorted([*((_asked(row), frame.offset) for row in rows), *gone]):
            self._note_type(each.type or UNKNOWN, each.position)
            self._note_tags(each.type or UNKNOWN, each.org, each.tags, each.position, offset)

    def _note_type(self, type_: str, position: int) -> None:
        known = self._types.get(type_)
        if known is None:
            self._types[type_] = [position, position]
        else:
            known[1] = position

    def _note_tags(self, type_: str, org: str | None, given: Iterable[str], position: int, offset: int) -> None:
        kind = self._kind(type_, org) if given else ""
        places = self._places
        for tag in given:
            if len(tag) > tags.BYTES_MAX:  # copied from another store; no query can name it
                continue
            key = tag + kind
            known = places.get(key)
            if known is None:
                places[key] = position << _OFFSET_BITS | offset
            elif isinstance(known, int):
                places[key] = bytearray(_packed(known) + PLACE.pack(position, offset))
            else:
                known += PLACE.pack(position, offset)

    def _kind(self, type_: str, org: str | None) -> str:
        orgs = self._kinds.setdefault(type_, {})
        kind = orgs.get(org)
        if kind is None:
            kind = orgs[org] = kind_of(self._kind_count)
            self._kind_count += 1
        return kind

    def join(self, part: TagPart) -> None:
        """Add what the part after this one holds."""
        for type_, (first, last) in part.type_ranges().items():
            self._note_type(type_, first)
            self._note_type(type_, last)
        named = {kind: self._kind(type_, org) for type_, orgs in part.kinds().items() for org, kind in orgs.items()}
        for key, packed in part.entries():
            self._extend(key[:-KIND_SIZE] + named[key[-KIND_SIZE:]], packed)
        self.covered_end, self.next_position = part.covered_end, part.next_position

    def _extend(self, key: str, packed: bytes) -> None:
        known = self._places.get(key)
        before = b"" if known is None else _packed(known) if isinstance(known, int) else bytes(known)
        self._places[key] = bytearray(before + packed)

    def entries(self) -> Iterator[tuple[str, bytes]]:
        for key in sorted(self._places):
            known = self._places[key]
            yield key, _packed(known) if isinstance(known, int) else bytes(known)

    def kinds(self) -> Kinds:
        return self._kinds

    def type_ranges(self) -> Mapping[str, TypeRange]:
        return dict(self._types)

    def kinds_of(self, tag: str, types: Sequence[str], org: str | None) -> Iterable[str]:
        return chosen_kinds(self._kinds, types, org)

    def places(self, tag: str, kind: str) -> Places | None:
        known = self._places.get(tag + kind)
        return None if known is None else PackedPlaces(_packed(known) if isinstance(known, int) else known)


def kind_of(number: int) -> str:
    """The end of the keys of one kind. It sorts by the number, and before every other continuation of a tag."""
    return f"\0{number:06x}"


def chosen_kinds(kinds: Kinds, types: Sequence[str], org: str | None) -> Iterator[str]:
    """The kinds of these types and this org."""
    for type_ in types or list(kinds):
        orgs = kinds.get(type_)
        if orgs is None:
            continue
        if org is None:
            yield from list(orgs.values())
        elif org in orgs:
            yield orgs[org]


def _packed(place: int) -> bytes:
    return PLACE.pack(place >> _OFFSET_BITS, place & _OFFSET_MASK)


def _asked(row: Row) -> PrunedEvent:
    found = tags.tagged(row[InRow.meta])
    return PrunedEvent(row[InRow.position], row[InRow.id], row[InRow.type], found.org, found.tags)


# --- questions -----------------------------------------------------------------------------------------------------


def places_of(part: TagPart, query: Query, *, after: int, org: str | None) -> Iterator[Place]:
    """The places past a position that match an item with tags, ascending. One may come twice."""
    return heapq.merge(*(_item_places(part, item, after, org) for item in query.items if item.tags))


def _item_places(part: TagPart, item: Item, after: int, org: str | None) -> Iterator[Place]:
    runs: list[Iterator[Place]] = []
    for kind in part.kinds_of(item.tags[0], item.types, org):
        found = [part.places(tag, kind) for tag in item.tags]
        known = [places for places in found if places is not None]
        if len(known) == len(found):
            runs.append(_common(sorted(known, key=len), after))
    return heapq.merge(*runs)


def _common(lists: list[Places], after: int) -> Iterator[Place]:
    """The places that are in each of the lists, of which the first is the shortest."""
    shortest, *others = lists
    for place in shortest.after(after):
        if all(other.has(place.position) for other in others):
            yield place


def untagged_ranges(part: TagPart, query: Query, *, after: int) -> list[TypeRange]:
    """Where past a position events may match an item without tags."""
    ranges = part.type_ranges()
    found: list[TypeRange] = []
    for item in query.items:
        if not item.tags:
            types = (*item.types, UNKNOWN) if item.types else ranges
            found += [ranges[type_] for type_ in types if type_ in ranges and ranges[type_][1] > after]
    return found
