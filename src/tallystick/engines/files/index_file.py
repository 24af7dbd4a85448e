"""The index of a segment as a file, read in place. Big-endian header, little-endian sections.

    magic 8 "TALLYIDX" | format u16 | store id 16 | identity 16 | covered end u64 | next position u64
    | twelve times (length u64, SHA-256 32) | SHA-256 of all before | the twelve sections

    positions u64…, offsets u64…     frames, noted at least 32 KiB apart
    ids 16…, id offsets u32…         every event id in order, and its frame's offset
    entry ends u32…, entries         every stream by name: name length u16, name, seq u64, link 32, org length u32,
                                     org, then postings (first seq u64, frame offset u32) to the entry's end
    bloom                            a filter over the names
    rest                             MessagePack {"sources": {[org, source]: seq}, "leases": [lease…], "far": [[stream,
                                     first seq, last seq, frame offset]…]}: commands whose events stand elsewhere
    life                             MessagePack {"cuts": [cut…], "erased": positions u64 big-endian…, "snapshots":
                                     [[id, held]…], "announced": position, "losses": [loss…]}: what happened in this
                                     segment, maybe to older ones; the last two only where there is something to say
    commands                         by digest: digest 16, frame offset u32, recorded u64, big-endian; offset 0 means
                                     forgotten here
    command bloom                    a filter over the digests
    gone ids 16…                     in order: events that were left out when their frames were written again

A section is verified when it is first read; one that does not check out makes the whole index worthless, and it is
rebuilt from its segment.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import struct
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tallystick.engines.files import bloom, lifecycle, side
from tallystick.engines.files import stream_entries as entries_of
from tallystick.engines.files.index import CommandPlace, FarRange, GrowingIndex, Named, StreamEntry
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.section_cache import SectionCache, StreamSections
from tallystick.store import leases
from tallystick.store.filesystem import File

MAGIC = b"TALLYIDX"
FORMAT = 3  # 2 counted a source once for all orgs
_FIELDS = struct.Struct(">8sH16s16sQQ")
_SECTION = struct.Struct(">Q32s")
_NAMES = (
    *("positions", "offsets", "ids", "id_offsets", "entry_ends", "entries", "bloom", "rest"),
    *("life", "commands", "command_bloom", "gone"),
)
_HEADER_SIZE = _FIELDS.size + len(_NAMES) * _SECTION.size + 32
_COMMAND = struct.Struct(">16sIQ")
_serials = itertools.count()


class BadIndex(Exception):
    """An index file is not what was written, or is of another segment."""


class MalformedIndex(BadIndex):
    """It has the right hashes and cannot be decoded: somebody made it so."""


@contextmanager
def _decoding() -> Iterator[None]:
    """A section that was forged along with its hash may be anything."""
    try:
        yield
    except (ValueError, LookupError, TypeError, struct.error, msgspec.MsgspecError) as problem:
        raise MalformedIndex("what is in it cannot be decoded") from problem


class SealedIndex:
    """An index file, opened."""

    def __init__(self, file: File, cache: SectionCache, *, store_id: bytes, identity: bytes) -> None:
        self._file = file
        self._cache = cache
        self._serial = next(_serials)
        header = file.read_at(0, _HEADER_SIZE)
        if len(header) < _HEADER_SIZE or hashlib.sha256(header[:-32]).digest() != header[-32:]:
            raise BadIndex("its header is damaged")
        magic, number, store, segment, end, next_position = _FIELDS.unpack_from(header)
        if (magic, number, store, segment) != (MAGIC, FORMAT, store_id, identity):
            raise BadIndex("it is of another segment or format")
        self.covered_end: int = end
        self.next_position: int = next_position
        self._sections: dict[str, tuple[int, int, bytes]] = {}
        at = _HEADER_SIZE
        for index, name in enumerate(_NAMES):
            length, digest = _SECTION.unpack_from(header, _FIELDS.size + index * _SECTION.size)
            self._sections[name] = (at, length, digest)
            at += length
        if file.size() < at:
            raise BadIndex("it is short")
        self._bloom: bytes | None = None
        self._command_bloom: bytes | None = None
        self._id_bounds: tuple[bytes, bytes] | None = None

    def section(self, name: str) -> bytes:
        """A section's bytes, verified."""
        data: bytes | None = self._cache.get((self._serial, name))
        if data is None:
            data = self._read(name)
            self._cache.put((self._serial, name), data)
        return data

    def _read(self, name: str) -> bytes:
        at, length, digest = self._sections[name]
        try:
            data = self._file.read_at(at, length)
        except OSError as problem:
            raise BadIndex(f"its section {name} cannot be read: {problem}") from problem
        if hashlib.sha256(data).digest() != digest:
            raise BadIndex(f"its section {name} is damaged")
        return data

    def _stream_sections(self) -> StreamSections:
        """Where each stream's entry ends, and the entries. A million streams take more room than the cache has."""
        found: StreamSections | None = self._cache.get((self._serial, "streams"))
        if found is None:
            found = (self._read("entry_ends"), self._read("entries"))
            self._cache.put((self._serial, "streams"), found)
        return found

    @_decoding()
    def frame_before(self, position: int) -> tuple[int, int]:
        positions = _unpacked("Q", self.section("positions"))
        index = bisect.bisect_right(positions, position) - 1
        return (positions[index], _unpacked("Q", self.section("offsets"))[index]) if index >= 0 else (0, 0)

    def find(self, id_: bytes) -> int | None:
        if self._id_bounds is not None and not self._id_bounds[0] <= id_ <= self._id_bounds[1]:
            return None  # rising ids make ranges that hardly overlap: most segments need not be looked at
        ids = self.section("ids")
        self._id_bounds = (ids[:16], ids[-16:])
        count = len(ids) // 16
        index = bisect.bisect_left(range(count), id_, key=lambda at: ids[16 * at : 16 * at + 16])
        if index >= count or ids[16 * index : 16 * index + 16] != id_:
            return None
        return int.from_bytes(self.section("id_offsets")[4 * index : 4 * index + 4], "little")

    @_decoding()
    def stream(self, name: str) -> StreamEntry | None:
        if self._bloom is None:
            self._bloom = self.section("bloom")
        if not bloom.may_hold(self._bloom, name):
            return None
        sections = self._stream_sections()
        return entries_of.find(sections, name)

    def names(self, after: str) -> Iterator[Named]:
        sections = self._stream_sections()
        with _decoding():
            ends, entries = _unpacked("I", sections[0]), sections[1]
            index = entries_of.index_of(sections, after) if after else 0
            begin = ends[index - 1] if index else 0
            for end in itertools.islice(ends, index, None):
                name, head, _ = entries_of.named_at(entries, begin)
                if name > after:
                    yield name, head
                begin = end

    def each_id(self) -> Iterator[bytes]:
        ids = self.section("ids")
        return (ids[at : at + 16] for at in range(0, len(ids), 16))

    @_decoding()
    def source(self, org: str, name: str) -> int:
        return side.last_of(self._rest()["sources"], org, name)

    @_decoding()
    def lease(self, stream: str) -> leases.Lease | None:
        for lease in self._rest()["leases"]:
            if lease[0] == stream:
                return msgspec.convert(lease, leases.Lease)
        return None

    @_decoding()
    def lifecycle(self) -> Lifecycle:
        return lifecycle.decode(msgspec.msgpack.decode(self.section("life")))

    @_decoding()
    def command(self, digest: bytes) -> CommandPlace | None:
        if not self._length("commands"):
            return None
        if self._command_bloom is None:
            self._command_bloom = self.section("command_bloom")
        if not bloom.may_hold(self._command_bloom, digest):
            return None
        commands, size = self.section("commands"), _COMMAND.size
        count = len(commands) // size
        index = bisect.bisect_left(range(count), digest, key=lambda at: commands[size * at : size * at + 16])
        if index >= count or not commands.startswith(digest, size * index):
            return None
        _, offset, recorded = _COMMAND.unpack_from(commands, size * index)
        return offset, recorded

    def commands(self) -> Iterator[tuple[bytes, CommandPlace]]:
        with _decoding():
            for digest, offset, recorded in _COMMAND.iter_unpack(self.section("commands")):
                yield digest, (offset, recorded)

    @_decoding()
    def far_ranges(self) -> list[FarRange]:
        return [tuple(found) for found in self._rest()["far"]]

    def is_gone(self, id_: bytes) -> bool:
        if not self._length("gone"):
            return False
        gone = self.section("gone")
        index = bisect.bisect_left(range(len(gone) // 16), id_, key=lambda at: gone[16 * at : 16 * at + 16])
        return gone.startswith(id_, 16 * index)

    def _length(self, name: str) -> int:
        return self._sections[name][1]

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    @_decoding()
    def _rest(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.msgpack.decode(self.section("rest"))
        return found

    def differences(self, grown: GrowingIndex) -> Iterator[str]:
        """Which parts of this index are not what follows from the frames that it covers, as `grown` took them in."""
        with _decoding():
            if (self.covered_end, self.next_position) != (grown.covered_end, grown.next_position):
                yield "how far it reaches"
            ids, offsets = _merged_ids(None, grown)
            if (self.section("ids"), self.section("id_offsets")) != (ids, offsets):
                yield "the ids of events"
            names, ends, entries = _merged_streams(None, grown)
            blooms = (self.section("bloom"), self.section("command_bloom"))
            commands = _merged_commands(None, grown)
            if (self.section("entry_ends"), self.section("entries")) != (_packed(ends), entries):
                yield "the streams"
            if blooms != (bloom.build(names, len(names)), commands["command_bloom"]):
                yield "the filters over streams and commands"
            if self.section("commands") != commands["commands"]:
                yield "the commands"
            if _in_order(self._rest()) != _in_order(msgspec.msgpack.decode(_merged_rest(None, grown))):
                yield "the sources and leases"
            if self.lifecycle().encode() != grown.life.encode():
                yield "what was pruned, erased or kept"
            if self.section("gone") != _merged_gone(None, grown):
                yield "the events that are gone"

    @_decoding()
    def frames(self) -> list[tuple[int, int]]:
        """The frames that it notes: first position, offset."""
        return list(
            zip(_unpacked("Q", self.section("positions")), _unpacked("Q", self.section("offsets")), strict=True)
        )

    def entries(self) -> Iterator[tuple[str, StreamEntry]]:
        """Every stream of the segment by name."""
        sections = self._stream_sections()
        with _decoding():
            for index in range(entries_of.count(sections)):
                yield entries_of.name_at(sections, index), entries_of.entry_at(sections, index)


def _in_order(rest: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any], list[Any]]:
    """Sources, leases and far ranges, however they were put together."""
    return rest["sources"], {lease[0]: lease for lease in rest["leases"]}, sorted(rest["far"])


class Coverage(msgspec.Struct, frozen=True):
    """What an index file says of itself in its header."""

    store_id: bytes
    identity: bytes
    end: int
    next_position: int


def coverage_in(file: File) -> Coverage | None:
    """What an index file is of; None if its header is damaged."""
    header = file.read_at(0, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE or hashlib.sha256(header[:-32]).digest() != header[-32:]:
        return None
    return Coverage(*_FIELDS.unpack_from(header)[2:])


def identity_in(file: File) -> bytes | None:
    """Which segment an index file is of; None if its header is damaged."""
    found = coverage_in(file)
    return None if found is None else found.identity


def _unpacked(code: str, data: bytes) -> array[int]:
    numbers = array(code)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def encode(base: SealedIndex | None, grown: GrowingIndex, *, store_id: bytes, identity: bytes) -> bytes:
    """The bytes of an index that covers what `base` covers and what has grown since."""
    ids, id_offsets = _merged_ids(base, grown)
    names, ends, entries = _merged_streams(base, grown)
    sections = {
        "positions": (base.section("positions") if base else b"") + _packed(grown.positions),
        "offsets": (base.section("offsets") if base else b"") + _packed(grown.offsets),
        "ids": ids,
        "id_offsets": id_offsets,
        "entry_ends": _packed(ends),
        "entries": entries,
        "bloom": bloom.build(names, len(names)),
        "rest": _merged_rest(base, grown),
        "life": _merged_life(base, grown),
        **_merged_commands(base, grown),
        "gone": _merged_gone(base, grown),
    }
    table = b"".join(_SECTION.pack(len(sections[name]), hashlib.sha256(sections[name]).digest()) for name in _NAMES)
    fields = _FIELDS.pack(MAGIC, FORMAT, store_id, identity, grown.covered_end, grown.next_position) + table
    return b"".join((fields, hashlib.sha256(fields).digest(), *(sections[name] for name in _NAMES)))


def _merged_ids(base: SealedIndex | None, grown: GrowingIndex) -> tuple[bytes, bytes]:
    old_ids, old_offsets = (base.section("ids"), base.section("id_offsets")) if base else (b"", b"")
    if not grown.strays and (not old_ids or not grown.ids or old_ids[-16:] < bytes(grown.ids[:16])):
        return old_ids + bytes(grown.ids), old_offsets + _packed(grown.id_offsets)
    pairs = [
        (old_ids[16 * index : 16 * index + 16], offset) for index, offset in enumerate(_unpacked("I", old_offsets))
    ]
    pairs += grown.all_ids()
    pairs.sort()
    return b"".join(id_ for id_, _ in pairs), _packed(array("I", [offset for _, offset in pairs]))


def _merged_streams(base: SealedIndex | None, grown: GrowingIndex) -> tuple[list[str], array[int], bytes]:
    streams: dict[str, StreamEntry] = dict(base.entries()) if base else {}
    for name, entry in grown.streams.items():
        old = streams.get(name)
        streams[name] = StreamEntry(entry.head, bytes(old.postings if old else b"") + bytes(entry.postings))
    names = sorted(streams)
    ends, entries, at = array("I"), [], 0
    for name in names:
        data = entries_of.encode(name, streams[name])
        at += len(data)
        ends.append(at)
        entries.append(data)
    return names, ends, b"".join(entries)


def _merged_rest(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    rest: dict[str, Any] = base._rest() if base else {"sources": {}, "leases": [], "far": []}
    taken: dict[str, Any] = {lease[0]: lease for lease in rest["leases"]}
    merged = {
        "sources": rest["sources"] | grown.sources,
        "leases": list((taken | grown.leases).values()),
        "far": [*rest["far"], *grown.far],
    }
    return msgspec.msgpack.encode(merged)


def _merged_life(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    parts = [grown.life] if base is None else [base.lifecycle(), grown.life]
    return msgspec.msgpack.encode(lifecycle.merged(parts).encode())


def _merged_commands(base: SealedIndex | None, grown: GrowingIndex) -> dict[str, bytes]:
    commands: dict[bytes, CommandPlace] = dict(base.commands()) if base else {}
    commands |= grown.made
    packed = b"".join(_COMMAND.pack(digest, *place) for digest, place in sorted(commands.items()))
    return {"commands": packed, "command_bloom": bloom.build(commands, len(commands)) if commands else b""}


def _merged_gone(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    old = base.section("gone") if base else b""
    if not grown.gone:
        return old
    return b"".join(sorted({*grown.gone, *(old[at : at + 16] for at in range(0, len(old), 16))}))
