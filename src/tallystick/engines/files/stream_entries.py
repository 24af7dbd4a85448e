"""The entries of streams in an index file, in order of name: where each ends, and their bytes, one after the other.

name length u16, name, seq u64, link 32, org length u32, org, then postings to the end of the entry
"""

from __future__ import annotations

import bisect
import struct

from tallystick.engines.files.index import POSTING, StreamEntry
from tallystick.engines.files.section_cache import StreamSections
from tallystick.store.ledger import Head

_ENTRY = struct.Struct(">Q32sI")


def count(sections: StreamSections) -> int:
    """How many streams there are."""
    return len(sections[0]) // 4


def index_of(sections: StreamSections, name: str) -> int:
    """The number of the first stream that is not before a name."""
    return bisect.bisect_left(range(count(sections)), name, key=lambda index: name_at(sections, index))


def _bounds(sections: StreamSections, index: int) -> tuple[int, int]:
    ends = sections[0]
    begin = int.from_bytes(ends[4 * index - 4 : 4 * index], "little") if index else 0
    return begin, int.from_bytes(ends[4 * index : 4 * index + 4], "little")


def name_at(sections: StreamSections, index: int) -> str:
    """The name of a stream by its number."""
    begin, entries = _bounds(sections, index)[0], sections[1]
    length = int.from_bytes(entries[begin : begin + 2], "big")
    return entries[begin + 2 : begin + 2 + length].decode()


def find(sections: StreamSections, name: str) -> StreamEntry | None:
    """What a segment knows of a stream."""
    index = index_of(sections, name)
    return entry_at(sections, index) if index < count(sections) and name_at(sections, index) == name else None


def entry_at(sections: StreamSections, index: int) -> StreamEntry:
    """What a segment knows of a stream, by its number."""
    (begin, end), entries = _bounds(sections, index), sections[1]
    _, head, at = named_at(entries, begin)
    return StreamEntry(head, entries[at:end])


def named_at(entries: bytes, begin: int) -> tuple[str, Head, int]:
    """The name and the end of the stream whose entry begins here, and where its postings begin."""
    at = begin + 2 + (entries[begin] << 8 | entries[begin + 1])
    seq, link, org_length = _ENTRY.unpack_from(entries, at)
    postings = at + _ENTRY.size + org_length
    org = entries[at + _ENTRY.size : postings].decode() if org_length else None
    return entries[begin + 2 : at].decode(), Head(seq, link, org), postings


def encode(name: str, entry: StreamEntry) -> bytes:
    """The bytes of an entry."""
    encoded, org = name.encode(), (entry.head.org or "").encode()
    fixed = _ENTRY.pack(entry.head.seq, entry.head.link, len(org))
    assert len(entry.postings) % POSTING.size == 0
    return b"".join((len(encoded).to_bytes(2, "big"), encoded, fixed, org, entry.postings))
