"""A compressed segment, read in place. After its header of 188 bytes come gzip members, then a table of them:

    gzip members, each of whole frames, about 32 KiB uncompressed
    for each member: offset in the file u64 | length in the file u32 | offset uncompressed u64
    number of members u32 | SHA-256 of the segment's identity, the entries and their number

Invariants:
- Offsets are those of the plain segment, so that scanner, reader and index need not know of the compression.
- A member that cannot be read reads as zeros, which are not frames: a damaged member is a hole where its frames were.
- The table can be made again by walking over the members, and is, if it cannot be read.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import gzip
import hashlib
import struct
import zlib
from collections.abc import Iterator

import msgspec

from tallystick.engines.files import segment
from tallystick.engines.files.segment import Header
from tallystick.store.filesystem import File, FileSystem, write_fully

MEMBER_BYTES = 32 << 10
LEVEL = 6
MEMBERS_KEPT = 2
_WALK_BYTES = 64 << 10
_GZIP_BITS = 31  # what zlib calls a window of 32 KiB in a gzip wrapper
_ENTRY = struct.Struct(">QIQ")
_COUNT = struct.Struct(">I")
_FOOT = _COUNT.size + 32


class GzipMember(msgspec.Struct, frozen=True, gc=False):
    """Where a member is in the file, and where its bytes begin when they are uncompressed."""

    offset: int
    length: int
    begin: int


def open_segment(files: FileSystem, path: str) -> tuple[Header, File]:
    """A segment's header, and its bytes as if they were not compressed."""
    file = files.open_read(path)
    try:
        header = segment.decode(file.read_at(0, segment.SIZE_MAX), path=path)
    except BaseException:
        file.close()
        raise
    return header, as_plain(file, header)


def as_plain(file: File, header: Header) -> File:
    """The file of a segment, whatever its encoding, with the offsets of a plain one."""
    if header.ending is None or header.ending.encoding == segment.PLAIN:
        return file
    return CompressedFile(file, header)


class CompressedFile:
    """Reads a compressed segment by its uncompressed offsets. Threads may share it: its cache is replaced in one."""

    def __init__(self, file: File, header: Header) -> None:
        assert header.ending is not None
        self._file = file
        self._identity = header.identity
        self._end = header.ending.end
        self._members: list[GzipMember] | None = None
        self._kept: tuple[tuple[int, bytes], ...] = ()

    def read_at(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self._end)
        pieces = []
        if offset < segment.SIZE_MAX:
            pieces.append(self._file.read_at(offset, min(end, segment.SIZE_MAX) - offset))
            offset = segment.SIZE_MAX
        while offset < end:
            pieces.append(self._piece(offset, end))
            offset += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def size(self) -> int:
        return self._end

    @property
    def has_table(self) -> bool:
        """Whether its table of members is what was written."""
        return self._read_table() is not None

    def write_at(self, offset: int, data: bytes | bytearray) -> int:
        raise OSError(errno.EROFS, "a compressed segment is not written to")

    def truncate(self, size: int) -> None:
        raise OSError(errno.EROFS, "a compressed segment is not written to")

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _piece(self, offset: int, end: int) -> bytes:
        """The bytes from an offset on, to the end of its member at most; zeros if the member cannot be read."""
        members = self._table()
        number = bisect.bisect_right(members, offset, key=lambda member: member.begin) - 1
        following = members[number + 1].begin if number + 1 < len(members) else self._end
        member = members[number] if number >= 0 else None
        data = next((data for kept, data in self._kept if kept == number), None)
        if member is not None and data is None:
            data = self._inflated(member, following - member.begin)
            self._kept = ((number, data), *self._kept[: MEMBERS_KEPT - 1])
        if member is None or not data:
            return bytes(min(following, end) - offset)
        return data[offset - member.begin : end - member.begin]

    def _inflated(self, member: GzipMember, size: int) -> bytes:
        """A member's bytes; empty if their number is wrong."""
        packed = self._file.read_at(member.offset, member.length)
        unpacking = zlib.decompressobj(_GZIP_BITS)
        try:
            data = unpacking.decompress(packed, size + 1)
        except zlib.error:
            return b""
        return data if unpacking.eof and len(data) == size else b""

    def _table(self) -> list[GzipMember]:
        if self._members is None:
            found = self._read_table()
            self._members = list(self._walk()) if found is None else found
        return self._members

    def _read_table(self) -> list[GzipMember] | None:
        size = self._file.size()
        foot = self._file.read_at(max(size - _FOOT, 0), _FOOT)
        if len(foot) < _FOOT:
            return None
        length = _COUNT.unpack_from(foot)[0] * _ENTRY.size
        begin = size - _FOOT - length
        if begin < segment.SIZE_MAX:
            return None
        entries = self._file.read_at(begin, length)
        if hashlib.sha256(self._identity + entries + foot[: _COUNT.size]).digest() != foot[_COUNT.size :]:
            return None
        return [GzipMember(*fields) for fields in _ENTRY.iter_unpack(entries)]

    def _walk(self) -> Iterator[GzipMember]:
        """The members from the first on, up to the first that cannot be read."""
        offset, begin = segment.SIZE_MAX, segment.SIZE_MAX
        with contextlib.suppress(zlib.error):
            while begin < self._end:
                length, size = self._measure(offset)
                if not size:
                    return
                yield GzipMember(offset, length, begin)
                offset, begin = offset + length, begin + size

    def _measure(self, offset: int) -> tuple[int, int]:
        """The length of the member at an offset of the file, compressed and uncompressed; zeros if it is cut off."""
        unpacking, length, size = zlib.decompressobj(_GZIP_BITS), 0, 0
        while not unpacking.eof:
            packed = self._file.read_at(offset + length, _WALK_BYTES)
            if not packed:
                return 0, 0
            length += len(packed)
            while packed and not unpacking.eof:
                size += len(unpacking.decompress(packed, MEMBER_BYTES))
                packed = unpacking.unconsumed_tail
            length -= len(unpacking.unused_data)
        return length, size


class Packer:
    """Writes the frames of a new generation, plain or compressed. The header is written last.

    Until then the file has no header and is not a segment. `end` is where the next frame begins, uncompressed.
    """

    def __init__(self, file: File, identity: bytes, *, encoding: int) -> None:
        self._file = file
        self._identity = identity
        self._encoding = encoding
        self._at = segment.SIZE_MAX
        self._waiting = bytearray()
        self._members: list[GzipMember] = []
        self.end = segment.SIZE_MAX

    def add(self, frame: bytes | bytearray) -> None:
        """Write the next frame."""
        self._waiting += frame
        self.end += len(frame)
        if len(self._waiting) >= MEMBER_BYTES:
            self._flush()

    def finish(self, header: Header) -> int:
        """Write what is left and the header, durably; returns the size of the file."""
        self._flush()
        if self._encoding == segment.GZIP:
            self._write(self._table())
        write_fully(self._file, 0, segment.encode(header))
        self._file.sync()
        return self._at

    def _flush(self) -> None:
        if not self._waiting:
            return
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._encoding == segment.GZIP:
            begin = self.end - len(data)
            data = gzip.compress(data, LEVEL, mtime=0)
            self._members.append(GzipMember(self._at, len(data), begin))
        self._write(data)

    def _write(self, data: bytes) -> None:
        write_fully(self._file, self._at, data)
        self._at += len(data)

    def _table(self) -> bytes:
        entries = b"".join(_ENTRY.pack(member.offset, member.length, member.begin) for member in self._members)
        count = _COUNT.pack(len(self._members))
        return entries + count + hashlib.sha256(self._identity + entries + count).digest()
