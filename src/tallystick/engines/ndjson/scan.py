"""From bytes to lines: complete lines with their offsets, and whatever is between them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.engines.ndjson import line as lines
from tallystick.engines.ndjson.index import Index
from tallystick.engines.ndjson.line import RunLine
from tallystick.store.filesystem import File

CHUNK_BYTES = 4 << 20


class LinePiece(msgspec.Struct, gc=False):
    """The bytes up to a newline or to the end. `line` is None if they are not a complete line."""

    start: int
    end: int
    line: RunLine | None


def pieces(file: File, *, begin: int, end: int) -> Iterator[LinePiece]:
    """Everything between two offsets, split at newlines."""
    carried, at = b"", begin
    while at < end:
        data = file.read_at(at, min(CHUNK_BYTES, end - at))
        if not data:
            break
        at += len(data)
        texts = (carried + data).split(b"\n")
        start = at - len(data) - len(carried)
        for text in texts[:-1]:
            yield LinePiece(start, start + len(text) + 1, lines.decode(text))
            start += len(text) + 1
        carried = texts[-1]
    if carried:
        yield LinePiece(at - len(carried), at, None)


def index_synced(index: Index, stream: str, file: File, *, end: int, seq: int) -> list[RunLine]:
    """Index everything up to the synced mark, which ends at `seq`. Anything wrong there is damage."""
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
    """Add a hole up to `last`. It replaces the single lines inside it that were recorded as holes."""
    first = index.seq + 1
    index.holes = [hole for hole in index.holes if hole.first < index.position(first)]
    index.add_hole(first, last, reason)
