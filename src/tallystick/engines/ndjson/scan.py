"""From bytes to lines: whole ones with their place, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.engines.ndjson import line as lines
from tallystick.engines.ndjson.index import Index
from tallystick.engines.ndjson.line import Line
from tallystick.store.filesystem import File

CHUNK_BYTES = 4 << 20


class Piece(msgspec.Struct, gc=False):
    """The bytes up to a newline, or up to the end. `line` None: they are no line that was written whole."""

    start: int
    end: int
    line: Line | None


def pieces(file: File, *, begin: int, end: int) -> Iterator[Piece]:
    """Everything between two offsets, newline by newline."""
    carried, at = b"", begin
    while at < end:
        data = file.read_at(at, min(CHUNK_BYTES, end - at))
        if not data:
            break
        at += len(data)
        texts = (carried + data).split(b"\n")
        start = at - len(data) - len(carried)
        for text in texts[:-1]:
            yield Piece(start, start + len(text) + 1, lines.decode(text))
            start += len(text) + 1
        carried = texts[-1]
    if carried:
        yield Piece(at - len(carried), at, None)


def index_synced(index: Index, stream: str, file: File, *, end: int, seq: int) -> list[Line]:
    """Take in everything up to the synced mark, which ends at `seq`. Whatever is wrong there is damage."""
    begin = index.end
    taken = []
    for piece in pieces(file, begin=begin, end=end):
        found = piece.line
        if found is None or found.stream != stream or found.seq <= index.seq:
            index.add_hole(index.seq + 1, index.seq + 1, f"{stream}: the line at byte {piece.start} is damaged")
            continue
        if found.seq != index.seq + 1:
            _open_hole(index, found.seq - 1, f"{stream}: lines before byte {piece.start} are damaged or gone")
        index.add_line(found, piece.start, piece.end)
        taken.append(found)
    if index.seq != seq or index.end != end:
        _open_hole(index, max(seq, index.seq + 1), f"{stream}: the log is shorter than it was, or damaged at its end")
    return taken


def _open_hole(index: Index, last: int, reason: str) -> None:
    """A hole up to `last`, in place of the single lines that were noted inside of it."""
    first = index.seq + 1
    index.holes = [hole for hole in index.holes if hole.first < index.position(first)]
    index.add_hole(first, last, reason)
