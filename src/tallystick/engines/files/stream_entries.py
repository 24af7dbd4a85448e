"""The streams of a segment in its index file, in order of name. An entry is

    name length u16 | name | seq u64 | link 32 | org length u32 | org | postings to the end of the entry

The section `entry ends` says where each entry ends, so that a name is found by bisection.
"""

from __future__ import annotations

import bisect
import struct

import msgspec

from tallystick.engines.files.index import POSTING, StreamEntry
from tallystick.store.ledger import Head

_ENTRY = struct.Struct(">Q32sI")
_END_BYTES = 4


class StreamEntries(msgspec.Struct, frozen=True, gc=False):
    """The sections `entry ends` and `entries`. They are kept together: no stream is found without both."""

    ends: bytes
    entries: bytes

    @property
    def size(self) -> int:
        """What they take in memory."""
        return len(self.ends) + len(self.entries)

    def __len__(self) -> int:
        return len(self.ends) // _END_BYTES

    def index_of(self, name: str) -> int:
        """The index of the first stream that is not before a name."""
        return bisect.bisect_left(range(len(self)), name, key=self.name_at)

    def bounds(self, index: int) -> tuple[int, int]:
        """Where an entry begins and ends."""
        at = _END_BYTES * index
        begin = int.from_bytes(self.ends[at - _END_BYTES : at], "little") if index else 0
        return begin, int.from_bytes(self.ends[at : at + _END_BYTES], "little")

    def name_at(self, index: int) -> str:
        """The name of a stream by its index."""
        begin, entries = self.bounds(index)[0], self.entries
        length = int.from_bytes(entries[begin : begin + 2], "big")
        return entries[begin + 2 : begin + 2 + length].decode()

    def entry_at(self, index: int) -> StreamEntry:
        """What the segment knows of a stream, by its index."""
        begin, end = self.bounds(index)
        _, head, at = self.head_at(begin)
        return StreamEntry(head, self.entries[at:end])

    def head_at(self, begin: int) -> tuple[str, Head, int]:
        """The name and the end of the stream whose entry begins here, and where its postings begin."""
        entries = self.entries
        at = begin + 2 + (entries[begin] << 8 | entries[begin + 1])
        seq, link, org_length = _ENTRY.unpack_from(entries, at)
        postings = at + _ENTRY.size + org_length
        org = entries[at + _ENTRY.size : postings].decode() if org_length else None
        return entries[begin + 2 : at].decode(), Head(seq, link, org), postings

    def find(self, name: str) -> StreamEntry | None:
        """What the segment knows of a stream."""
        index = self.index_of(name)
        return self.entry_at(index) if index < len(self) and self.name_at(index) == name else None


def encode(name: str, entry: StreamEntry) -> bytes:
    """The bytes of an entry."""
    encoded, org = name.encode(), (entry.head.org or "").encode()
    fixed = _ENTRY.pack(entry.head.seq, entry.head.link, len(org))
    assert len(entry.postings) % POSTING.size == 0
    return b"".join((len(encoded).to_bytes(2, "big"), encoded, fixed, org, entry.postings))
