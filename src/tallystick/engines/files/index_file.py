"""The index of a segment as a file, read in place. Big-endian header, little-endian sections.

    magic 8 "TALLYIDX" | format u16 | store id 16 | identity 16 | covered end u64 | next position u64
    | twelve times (length u64, SHA-256 32) | SHA-256 of all before | the twelve sections

    positions u64…, offsets u64…     frames, listed at least 32 KiB apart
    ids 16…, id offsets u32…         every event id in order, and its frame's offset
    entry ends u32…, entries         every stream by name: name length u16, name, seq u64, link 32, org length u32,
                                     org, then postings (first seq u64, frame offset u32) to the entry's end
    bloom                            a filter over the names
    rest                             MessagePack {"sources": {[org, source]: seq}, "leases": [lease…], "far": [[stream,
                                     first seq, last seq, frame offset]…]}: commands whose events are elsewhere
    life                             MessagePack {"cuts": [cut…], "erased": positions u64 big-endian…, "snapshots":
                                     [[id, held]…], "announced": position, "losses": [loss…]}: what this segment says
                                     of its own events and of older ones; the last two only if they are not empty
    commands                         by digest: digest 16, frame offset u32, recorded u64, big-endian; offset 0 means
                                     forgotten here
    command bloom                    a filter over the digests
    gone ids 16…                     in order: events that were left out when their frames were written again

Invariants:
- The header is verified when the file is opened, a section when it is first read. If one does not have its SHA-256, the
  whole index is rebuilt from its segment.
- An index is bound to the identity of its segment, so that no generation is read with the index of another.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import itertools
import struct
import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from tallystick.engines.files import bloom, lifecycle, side
from tallystick.engines.files.index import CommandPlace, FarRange, Named, StreamEntry
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.stream_entries import StreamEntries
from tallystick.store import leases
from tallystick.store.filesystem import File

MAGIC = b"TALLYIDX"
FORMAT = 3  # 2 counted a source once for all orgs
FIELDS = struct.Struct(">8sH16s16sQQ")
SECTION = struct.Struct(">Q32s")
NAMES = (
    *("positions", "offsets", "ids", "id_offsets", "entry_ends", "entries", "bloom", "rest"),
    *("life", "commands", "command_bloom", "gone"),
)
HEADER_SIZE = FIELDS.size + len(NAMES) * SECTION.size + 32
COMMAND = struct.Struct(">16sIQ")
CACHE_BYTES_MAX = 64 << 20  # the ids of three million events


P = ParamSpec("P")
T = TypeVar("T")
_serials = itertools.count()


class BadIndex(Exception):
    """An index file is not what was written, or belongs to another segment."""


class MalformedIndex(BadIndex):
    """An index file has the right hashes and cannot be decoded: it was forged."""


@contextlib.contextmanager
def decoding() -> Iterator[None]:
    """Decode a section: one that was forged along with its hash may hold anything."""
    try:
        yield
    except (ValueError, LookupError, TypeError, struct.error, msgspec.MsgspecError) as problem:
        raise MalformedIndex("a section cannot be decoded") from problem


def _decoded(ask: Callable[P, T]) -> Callable[P, T]:
    """Decode the sections that answer a question."""

    @functools.wraps(ask)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        with decoding():
            return ask(*args, **kwargs)

    return asked


class SizedSection(Protocol):
    """A section that was decoded: `size` is about what it takes in memory."""

    @property
    def size(self) -> int: ...


class SectionCache:
    """Sections of many indexes in memory, bounded in bytes."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._items: OrderedDict[tuple[int, str], Any] = OrderedDict()

    def get(self, key: tuple[int, str]) -> Any:
        """The section, if it is still in memory."""
        found = self._items.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread dropped it just now
                self._items.move_to_end(key)
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()
        self._bytes = 0

    def put(self, key: tuple[int, str], data: bytes | SizedSection) -> None:
        """Keep a section, and forget those that were not used for longest."""
        self._bytes += _size(data) - _size(self._items.pop(key, b""))  # another thread may have put it meanwhile
        self._items[key] = data
        while self._bytes > self._bytes_max and len(self._items) > 1:
            try:
                _, dropped = self._items.popitem(last=False)
            except KeyError:
                return
            self._bytes -= _size(dropped)


def _size(data: bytes | SizedSection) -> int:
    return len(data) if isinstance(data, bytes) else data.size


class SealedIndex:
    """An index file, opened."""

    def __init__(self, file: File, cache: SectionCache, *, store_id: bytes, identity: bytes) -> None:
        self._file = file
        self._cache = cache
        self._serial = next(_serials)
        header = file.read_at(0, HEADER_SIZE)
        if len(header) < HEADER_SIZE or hashlib.sha256(header[:-32]).digest() != header[-32:]:
            raise BadIndex("its header is damaged")
        magic, number, store, segment, end, next_position = FIELDS.unpack_from(header)
        if (magic, number, store, segment) != (MAGIC, FORMAT, store_id, identity):
            raise BadIndex("it has another format, or belongs to another segment")
        self.covered_end: int = end
        self.next_position: int = next_position
        self._sections: dict[str, tuple[int, int, bytes]] = {}
        at = HEADER_SIZE
        for index, name in enumerate(NAMES):
            length, digest = SECTION.unpack_from(header, FIELDS.size + index * SECTION.size)
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

    def _streams(self) -> StreamEntries:
        """Every stream. Those of a million streams are larger than the cache."""
        found: StreamEntries | None = self._cache.get((self._serial, "streams"))
        if found is None:
            found = StreamEntries(self._read("entry_ends"), self._read("entries"))
            self._cache.put((self._serial, "streams"), found)
        return found

    @_decoded
    def frame_before(self, position: int) -> tuple[int, int]:
        positions = unpacked("Q", self.section("positions"))
        index = bisect.bisect_right(positions, position) - 1
        return (positions[index], unpacked("Q", self.section("offsets"))[index]) if index >= 0 else (0, 0)

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

    @_decoded
    def stream(self, name: str) -> StreamEntry | None:
        if self._bloom is None:
            self._bloom = self.section("bloom")
        if not bloom.may_hold(self._bloom, name):
            return None
        return self._streams().find(name)

    def names(self, after: str) -> Iterator[Named]:
        streams = self._streams()
        with decoding():
            ends = unpacked("I", streams.ends)
            index = streams.index_of(after) if after else 0
            begin = ends[index - 1] if index else 0
            for end in itertools.islice(ends, index, None):
                name, head, _ = streams.head_at(begin)
                if name > after:
                    yield name, head
                begin = end

    def each_id(self) -> Iterator[bytes]:
        ids = self.section("ids")
        return (ids[at : at + 16] for at in range(0, len(ids), 16))

    @_decoded
    def source(self, org: str, name: str) -> int:
        return side.last_of(self.rest()["sources"], org, name)

    @_decoded
    def lease(self, stream: str) -> leases.Lease | None:
        for lease in self.rest()["leases"]:
            if lease[0] == stream:
                return msgspec.convert(lease, leases.Lease)
        return None

    @_decoded
    def lifecycle(self) -> Lifecycle:
        return lifecycle.decode(msgspec.msgpack.decode(self.section("life")))

    @_decoded
    def command(self, digest: bytes) -> CommandPlace | None:
        if not self._length("commands"):
            return None
        if self._command_bloom is None:
            self._command_bloom = self.section("command_bloom")
        if not bloom.may_hold(self._command_bloom, digest):
            return None
        commands, size = self.section("commands"), COMMAND.size
        count = len(commands) // size
        index = bisect.bisect_left(range(count), digest, key=lambda at: commands[size * at : size * at + 16])
        if index >= count or not commands.startswith(digest, size * index):
            return None
        _, offset, recorded = COMMAND.unpack_from(commands, size * index)
        return offset, recorded

    def commands(self) -> Iterator[tuple[bytes, CommandPlace]]:
        with decoding():
            for digest, offset, recorded in COMMAND.iter_unpack(self.section("commands")):
                yield digest, (offset, recorded)

    @_decoded
    def far_ranges(self) -> list[FarRange]:
        return [tuple(found) for found in self.rest()["far"]]

    def is_gone(self, id_: bytes) -> bool:
        if not self._length("gone"):
            return False
        gone = self.section("gone")
        index = bisect.bisect_left(range(len(gone) // 16), id_, key=lambda at: gone[16 * at : 16 * at + 16])
        return gone.startswith(id_, 16 * index)

    def _length(self, name: str) -> int:
        return self._sections[name][1]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @_decoded
    def rest(self) -> dict[str, Any]:
        """Sources, leases and far ranges."""
        found: dict[str, Any] = msgspec.msgpack.decode(self.section("rest"))
        return found

    @_decoded
    def frames(self) -> list[tuple[int, int]]:
        """The frames that it lists: first position, offset."""
        return list(zip(unpacked("Q", self.section("positions")), unpacked("Q", self.section("offsets")), strict=True))

    def entries(self) -> Iterator[tuple[str, StreamEntry]]:
        """Every stream of the segment by name."""
        streams = self._streams()
        with decoding():
            for index in range(len(streams)):
                yield streams.name_at(index), streams.entry_at(index)


class Coverage(msgspec.Struct, frozen=True):
    """What the header of an index file says."""

    store_id: bytes
    identity: bytes
    end: int
    next_position: int


def coverage_in(file: File) -> Coverage | None:
    """What an index file covers; None if its header is damaged."""
    header = file.read_at(0, HEADER_SIZE)
    if len(header) < HEADER_SIZE or hashlib.sha256(header[:-32]).digest() != header[-32:]:
        return None
    return Coverage(*FIELDS.unpack_from(header)[2:])


def identity_in(file: File) -> bytes | None:
    """The identity of the segment that an index file belongs to; None if its header is damaged."""
    found = coverage_in(file)
    return None if found is None else found.identity


def unpacked(code: str, data: bytes) -> array[int]:
    """The numbers of a section, which are little-endian on every machine."""
    numbers = array(code)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
