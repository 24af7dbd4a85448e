"""The tags of the events of a segment as a file, `NAME.tags`, read in place. Big-endian.

    magic 8 "TALLYTAG" | format u16 | store id 16 | identity 16 | first position u64 | covered end u64
    | next position u64 | SHA-256 of the last frame 32 | twice (length u64, SHA-256 32): table, directory
    | SHA-256 of all before | table | directory | blocks of 64 KiB

    table        MessagePack [{type: [first position, last position]}, {type: [[org, kind]…]}]; a kind is seven
                 characters, a NUL and six hexadecimal digits
    block        number of entries u32 | where each entry ends in the block u32… | entries in order
    entry        key length u16 | key | places (position u64, frame offset u32)…; a key is a tag and its kind. One with
                 more than 4,096 places has several entries. Offset 0: the event was pruned and is not in its frame
    directory    the same as a block, with one entry for each block: key length and key of its first entry, the first
                 position there u64, offset of the block u64, its length u32, SHA-256 of the block 32

Invariants:
- The header is verified when the file is opened, and anything else when it is read. Whatever does not have its SHA-256
  makes the file bad: it is made again from the segment, or the segment is read instead.
- The file is bound to the identity of its segment and to the last frame that it covers, so that it is not used for
  another generation, nor for a copy of the segment that continued in another way.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tallystick.engines.files.index_file import BadIndex, SectionCache, decoding
from tallystick.engines.files.tag_index import (
    KIND_SIZE,
    PLACE,
    GrowingTags,
    Kinds,
    PackedPlaces,
    Place,
    TypeRange,
    chosen_kinds,
)
from tallystick.store.filesystem import File

MAGIC = b"TALLYTAG"
FORMAT = 1
BLOCK_BYTES = 64 << 10
PLACES_MAX = 4096  # in one entry
_FIELDS = struct.Struct(">8sH16s16sQQQ32s")
_SECTION = struct.Struct(">Q32s")
HEADER_SIZE = _FIELDS.size + 2 * _SECTION.size + 32
_BLOCK = struct.Struct(">QQI32s")  # what the directory says of a block
_KEY = struct.Struct(">H")
_NUMBER = struct.Struct(">I")
_POSITION = struct.Struct(">Q")

_POSITION_MAX = (1 << 64) - 1
_DECODED_SHARE = 8  # how much larger the table is when it is decoded
_decode_table = msgspec.msgpack.Decoder(tuple[dict[str, list[int]], dict[str, list[tuple[str | None, str]]]]).decode
_serials = itertools.count()


class TagTable(msgspec.Struct, frozen=True):
    """The table, decoded."""

    size: int
    ranges: Mapping[str, TypeRange]
    kinds: Kinds


class TagEntries:
    """The entries of a block, or of the directory: found by bisection over their keys and first positions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count: int = _NUMBER.unpack_from(data)[0]
        self._begin: int = _NUMBER.size * (self._count + 1)

    def __len__(self) -> int:
        return self._count

    def last_up_to(self, key: bytes, position: int) -> int:
        """The index of the last entry that is not after this key and position; -1 if there is none."""
        return bisect.bisect_right(range(self._count), (key, position), key=self.key_at) - 1

    def key_at(self, index: int) -> tuple[bytes, int]:
        """The key of an entry, and its first position."""
        begin, end = self._key_bounds(index)
        return self._data[begin:end], int.from_bytes(self._data[end : end + _POSITION.size])

    def content_at(self, index: int) -> bytes:
        """What follows the key of an entry."""
        return self._data[self._key_bounds(index)[1] : self._end(index)]

    def _key_bounds(self, index: int) -> tuple[int, int]:
        begin = (self._end(index - 1) if index else self._begin) + _KEY.size
        return begin, begin + int.from_bytes(self._data[begin - _KEY.size : begin])

    def _end(self, index: int) -> int:
        end: int = _NUMBER.unpack_from(self._data, _NUMBER.size * (index + 1))[0]
        return self._begin + end


class SealedTags:
    """A file of tags, opened."""

    def __init__(self, file: File, cache: SectionCache, *, store_id: bytes, identity: bytes) -> None:
        self._file = file
        self._cache = cache
        self._serial = -next(_serials) - 1  # the numbers of indexes are not negative
        header = file.read_at(0, HEADER_SIZE)
        if len(header) < HEADER_SIZE or hashlib.sha256(header[:-32]).digest() != header[-32:]:
            raise BadIndex("its header is damaged")
        magic, number, store, segment, begin, end, next_position, digest = _FIELDS.unpack_from(header)
        if (magic, number, store, segment) != (MAGIC, FORMAT, store_id, identity):
            raise BadIndex("it has another format, or belongs to another segment")
        self.begin_position: int = begin
        self.covered_end: int = end
        self.next_position: int = next_position
        self.last_digest: bytes = digest
        self._parts: dict[str, tuple[int, int, bytes]] = {}
        at = HEADER_SIZE
        for index, name in enumerate(("table", "directory")):
            length, digest = _SECTION.unpack_from(header, _FIELDS.size + index * _SECTION.size)
            self._parts[name] = (at, length, digest)
            at += length
        self._blocks_at = at

    def _verified(self, name: str, at: int, length: int, digest: bytes) -> bytes:
        """Bytes of the file, if they have their SHA-256."""
        data: bytes | None = self._cache.get((self._serial, name))
        if data is None:
            try:
                data = self._file.read_at(at, length)
            except OSError as problem:
                raise BadIndex(f"its {name} cannot be read: {problem}") from problem
            if hashlib.sha256(data).digest() != digest:
                raise BadIndex(f"its {name} is damaged")
            self._cache.put((self._serial, name), data)
        return data

    def _table(self) -> TagTable:
        found: TagTable | None = self._cache.get((self._serial, "decoded table"))
        if found is None:
            data = self._verified("table", *self._parts["table"])
            with decoding():
                ranges, kinds = _decode_table(data)
            found = TagTable(_DECODED_SHARE * len(data), ranges, {type_: dict(orgs) for type_, orgs in kinds.items()})
            self._cache.put((self._serial, "decoded table"), found)
        return found

    def _directory(self) -> TagEntries:
        return TagEntries(self._verified("directory", *self._parts["directory"]))

    def _block(self, directory: TagEntries, number: int) -> TagEntries:
        _, offset, length, digest = _BLOCK.unpack(directory.content_at(number))
        return TagEntries(self._verified(f"block {number}", self._blocks_at + offset, length, digest))

    def type_ranges(self) -> Mapping[str, TypeRange]:
        return self._table().ranges

    def kinds(self) -> Kinds:
        return self._table().kinds

    def kinds_of(self, tag: str, types: Sequence[str], org: str | None) -> Iterable[str]:
        if types or org is not None:
            return chosen_kinds(self.kinds(), types, org)
        return self._kinds_of(tag.encode())

    def _kinds_of(self, tag: bytes) -> Iterator[str]:
        """The kinds that a tag has here, from one to the next."""
        begin = tag + b"\0"
        key = self._first_key(begin)
        while key is not None and key.startswith(begin):
            if len(key) == len(tag) + KIND_SIZE:
                yield key[len(tag) :].decode()
            key = self._first_key(key + b"\0")

    def _first_key(self, key: bytes) -> bytes | None:
        """The first key that is not before this one."""
        with decoding():
            directory = self._directory()
            for number in range(max(directory.last_up_to(key, -1), 0), len(directory)):
                block = self._block(directory, number)
                index = block.last_up_to(key, -1) + 1
                if index < len(block):
                    return block.key_at(index)[0]
            return None

    def places(self, tag: str, kind: str) -> SealedPlaces | None:
        key = (tag + kind).encode()
        first = next(self.pieces(key, 0), None)
        return None if first is None else SealedPlaces(self, key, len(first) // PLACE.size + self._further(key))

    def _further(self, key: bytes) -> int:
        """A bound for the places of a key that are not in the block in which it begins."""
        with decoding():
            directory = self._directory()
            return PLACES_MAX * (directory.last_up_to(key, _POSITION_MAX) - directory.last_up_to(key, 0))

    def pieces(self, key: bytes, position: int) -> Iterator[bytes]:
        """The places of a key, packed, piece by piece, from the piece on that may hold a position."""
        with decoding():
            directory = self._directory()
            for number in range(max(directory.last_up_to(key, position), 0), len(directory)):
                block = self._block(directory, number)
                for index in range(max(block.last_up_to(key, position), 0), len(block)):
                    found = block.key_at(index)[0]
                    if found > key:
                        return
                    if found == key:
                        yield block.content_at(index)

    def entries(self) -> Iterator[tuple[str, bytes]]:
        for key, pieces in itertools.groupby(self._all_pieces(), key=lambda piece: piece[0]):
            with decoding():
                name = key.decode()
            yield name, b"".join(places for _, places in pieces)

    def _all_pieces(self) -> Iterator[tuple[bytes, bytes]]:
        with decoding():
            directory = self._directory()
            for number in range(len(directory)):
                block = self._block(directory, number)
                for index in range(len(block)):
                    yield block.key_at(index)[0], block.content_at(index)


class SealedPlaces:
    """The places of one key in a file."""

    def __init__(self, tags: SealedTags, key: bytes, count: int) -> None:
        self._tags = tags
        self._key = key
        self._count = count

    def __len__(self) -> int:
        return self._count

    def after(self, position: int) -> Iterator[Place]:
        for packed in self._tags.pieces(self._key, position):
            yield from PackedPlaces(packed).after(position)

    def has(self, position: int) -> bool:
        packed = next(self._tags.pieces(self._key, position), None)
        return packed is not None and PackedPlaces(packed).has(position)


# --- writing -------------------------------------------------------------------------------------------------------


def encode(tags: GrowingTags, *, store_id: bytes, identity: bytes, last_digest: bytes) -> bytes:
    """The bytes of a file with all of these tags."""
    kinds = {type_: list(orgs.items()) for type_, orgs in tags.kinds().items()}
    table = msgspec.msgpack.encode((tags.type_ranges(), kinds))
    blocks: list[bytes] = []
    listed: list[bytes] = []
    at = 0
    for entries in _filled(tags.entries()):
        block = _joined(entries)
        key_size = _KEY.unpack_from(entries[0])[0]
        first = _POSITION.unpack_from(entries[0], _KEY.size + key_size)[0]
        place = _BLOCK.pack(first, at, len(block), hashlib.sha256(block).digest())
        listed.append(entries[0][: _KEY.size + key_size] + place)
        blocks.append(block)
        at += len(block)
    directory = _joined(listed)
    covered = tags.begin_position, tags.covered_end, tags.next_position
    fields = _FIELDS.pack(MAGIC, FORMAT, store_id, identity, *covered, last_digest)
    fields += b"".join(_SECTION.pack(len(data), hashlib.sha256(data).digest()) for data in (table, directory))
    return b"".join((fields, hashlib.sha256(fields).digest(), table, directory, *blocks))


def _filled(entries: Iterable[tuple[str, bytes]]) -> Iterator[list[bytes]]:
    """The entries of each block."""
    waiting: list[bytes] = []
    size = 0
    for name, places in entries:
        key = name.encode()
        for begin in range(0, len(places), PLACE.size * PLACES_MAX):
            piece = places[begin : begin + PLACE.size * PLACES_MAX]
            if waiting and size + len(key) + len(piece) > BLOCK_BYTES:
                yield waiting
                waiting, size = [], 0
            waiting.append(b"".join((_KEY.pack(len(key)), key, piece)))
            size += len(waiting[-1]) + _NUMBER.size
    if waiting:
        yield waiting


def _joined(entries: Sequence[bytes]) -> bytes:
    ends = itertools.accumulate(map(len, entries))
    return b"".join((_NUMBER.pack(len(entries)), struct.pack(f">{len(entries)}I", *ends), *entries))


# --- verification --------------------------------------------------------------------------------------------------


def differences(base: SealedTags, tags: GrowingTags) -> Iterator[tuple[int, str]]:
    """Where a file of tags is not what follows from the frames that it covers, as `tags` took them in: the position,
    and what is wrong.
    """
    covered = base.begin_position, base.covered_end, base.next_position
    if covered != (tags.begin_position, tags.covered_end, tags.next_position):
        yield base.begin_position, "how far it reaches"
    ranges, true = base.type_ranges(), tags.type_ranges()
    for type_ in sorted({*ranges, *true}):
        if list(ranges.get(type_, ())) != list(true.get(type_, ())):
            yield max([*ranges.get(type_, ()), *true.get(type_, ())]), f"where events of type {type_!r} are"
    names = {kind: (type_, org) for type_, orgs in base.kinds().items() for org, kind in orgs.items()}
    found = 0
    for key, packed in base.entries():
        type_, org = names.get(key[-KIND_SIZE:], ("", None))
        kind = tags.kinds().get(type_, {}).get(org, "")
        known = tags.places(key[:-KIND_SIZE], kind) if kind else None
        found += known is not None
        expected = list(known.after(-1)) if known is not None else []
        yield from _wrong_places(key[:-KIND_SIZE], type_, list(PackedPlaces(packed).after(-1)), expected)
    if found < sum(1 for _ in tags.entries()):
        yield from _missing_keys(base, tags)


def _missing_keys(base: SealedTags, tags: GrowingTags) -> Iterator[tuple[int, str]]:
    kinds = base.kinds()
    names = {kind: (type_, org) for type_, orgs in tags.kinds().items() for org, kind in orgs.items()}
    for key, packed in tags.entries():
        type_, org = names[key[-KIND_SIZE:]]
        kind = kinds.get(type_, {}).get(org)
        if kind is None or base.places(key[:-KIND_SIZE], kind) is None:
            yield from _wrong_places(key[:-KIND_SIZE], type_, [], list(PackedPlaces(packed).after(-1)))


def _wrong_places(tag: str, type_: str, found: list[Place], expected: list[Place]) -> Iterator[tuple[int, str]]:
    if found == expected:
        return
    listed, true = dict(found), dict(expected)
    whose = f"the tag {tag!r} of type {type_!r}"
    for position in sorted({*listed, *true}):
        if position not in listed:
            yield position, f"{whose} lacks its event"
        elif position not in true:
            yield position, f"{whose} has an event that is not there"
        elif listed[position] != true[position]:
            yield position, f"{whose} has its event in another frame"
