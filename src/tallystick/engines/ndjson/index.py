"""What a handle remembers of one stream: the offset of each line, the ids, and the end of the stream."""

from __future__ import annotations

from array import array

import msgspec

from tallystick.engines.ndjson.line import RunLine
from tallystick.event import chain, ids
from tallystick.event.model import InRow, Row
from tallystick.store.ledger import Head, Source
from tallystick.store.page import Hole

SEQ_BITS = 32
_MISSING = -1


class _SourceMeta(msgspec.Struct, gc=False):
    """The part of the meta that later commits are judged by."""

    org: str | None = None
    source: str | None = None
    source_seq: int | None = None


_scope = msgspec.json.Decoder(_SourceMeta).decode


class Index:
    """Offsets by seq. A damaged line has no offset."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.end = 0  # the offset after the last line that counts
        self.lines = 0
        self.seq = 0
        self._link = chain.GENESIS.hex()
        self.org: str | None = None
        self.sources: dict[Source, int] = {}
        self.ids: dict[str, int] = {}  # by UUID text, as in the lines: most ids are never looked up
        self.holes: list[Hole] = []
        self._starts = array("q")
        self._ends = array("q")

    @property
    def link(self) -> bytes:
        """The link of the last line."""
        return bytes.fromhex(self._link)

    @property
    def head(self) -> Head | None:
        """The end of the stream; None while it has no events."""
        return Head(self.seq, self.link, self.org) if self.seq else None

    def position(self, seq: int) -> int:
        """The position of a seq of this stream."""
        return self.number << SEQ_BITS | seq

    def add_line(self, line: RunLine, start: int, end: int) -> None:
        """Add a line that was read. The seqs that were left out before it are a hole."""
        self._add(line.seq, line.id, line.link, bytes(line.meta))
        self._place(line.seq, start, end)

    def add_rows(self, rows: list[Row], start: int, sizes: list[int]) -> None:
        """Add the lines of a commit that was just written at `start`."""
        for row, size in zip(rows, sizes, strict=True):
            self._add(row[InRow.seq], ids.to_text(row[InRow.id]), row[InRow.link].hex(), row[InRow.meta])
            self._place(row[InRow.seq], start, start + size)
            start += size

    def _add(self, seq: int, id_: str, link: str, meta: bytes) -> None:
        self.seq, self._link = seq, link
        self.ids[id_] = seq
        if b'"org"' in meta or b'"source"' in meta:
            scope = _scope(meta)
            self.org = self.org or scope.org
            if scope.source is not None and scope.source_seq is not None:
                key = (scope.org or "", scope.source)
                self.sources[key] = max(scope.source_seq, self.sources.get(key, 0))

    def _place(self, seq: int, start: int, end: int) -> None:
        while len(self._starts) < seq - 1:
            self._starts.append(_MISSING)
            self._ends.append(_MISSING)
        self._starts.append(start)
        self._ends.append(end)
        self.lines += 1
        self.end = end

    def add_hole(self, first: int, last: int, reason: str) -> None:
        """Record that the lines of these seqs cannot be read."""
        self.holes.append(Hole(self.position(first), self.position(max(first, last)), reason))

    def extent(self, seq: int) -> tuple[int, int] | None:
        """Where the line of a seq begins and ends; None if it is in a hole."""
        start = self._starts[seq - 1]
        return None if start == _MISSING else (start, self._ends[seq - 1])
