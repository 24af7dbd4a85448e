"""What comes after the synced mark, and what a writer does with it when it opens the run.

| found after the mark                                                | done                                         |
|---------------------------------------------------------------------|----------------------------------------------|
| complete commits                                                    | rewritten in place, synced, kept             |
| an incomplete commit, and no line of a later commit after it        | copied to quarantine, synced, cut            |
| the same, with a line of a later commit after it                    | damage: refused, nothing is changed          |

Complete commits are rewritten because an fsync of an earlier process may have failed. The kernel then marks the pages
clean, and syncing them again would do nothing.
"""

from __future__ import annotations

import msgspec

from tallystick.engines.ndjson import scan
from tallystick.engines.ndjson.index import Index
from tallystick.engines.ndjson.scan import LinePiece
from tallystick.event import chain
from tallystick.store.filesystem import File, FileSystem, replace_file, write_fully

QUARANTINE = "quarantine"
EVENTS = "events.ndjson"


class RunTail(msgspec.Struct):
    """The bytes after the mark: complete commits up to `end`, then a torn one. `damage`: what else is wrong."""

    begin: int
    end: int
    size: int
    kept: list[LinePiece]
    damage: str = ""


def examine(index: Index, stream: str, file: File) -> RunTail:
    """Examine the bytes after the indexed lines. Changes nothing."""
    size = file.size()
    tail = RunTail(index.end, index.end, size, [])
    commit: list[LinePiece] = []
    seq, link = index.seq, index.link
    torn = False
    for piece in scan.pieces(file, begin=index.end, end=size):
        found = piece.line
        if torn or found is None or found.stream != stream or not _follows(piece, seq, link, commit, index.number):
            torn = True
            if found is not None and found.stream == stream and found.commit[0] > _next_commit(tail, index):
                tail.damage = f"{stream}: the log is damaged after byte {tail.end}: a later commit follows"
            continue
        commit.append(piece)
        seq, link = found.seq, bytes.fromhex(found.link)
        if seq == found.commit[1]:
            tail.kept += commit
            tail.end = piece.end
            commit = []
    return tail


def _next_commit(tail: RunTail, index: Index) -> int:
    """The first seq of the torn commit."""
    last = tail.kept[-1].line if tail.kept else None
    return (last.seq if last is not None else index.seq) + 1


def _follows(piece: LinePiece, seq: int, link: bytes, commit: list[LinePiece], number: int) -> bool:
    """Whether a line is the next of its stream and of its commit, and its hashes are right."""
    found = piece.line
    assert found is not None
    if found.seq != seq + 1 or not found.commit[0] <= found.seq <= found.commit[1]:
        return False
    first = commit[0].line if commit else found
    if first is None or found.commit != first.commit or (not commit and found.commit[0] != found.seq):
        return False
    event = found.event(number)
    checked = event.payload is None or chain.checksum(event.payload) == event.checksum
    return checked and chain.link(event, link) == event.link


def settle(files: FileSystem, directory: str, file: File, tail: RunTail, *, time_ns: int) -> list[str]:
    """Finish what a crash interrupted: make complete commits durable, quarantine a torn one. Returns what was done."""
    done = []
    if tail.size > tail.end:
        torn = file.read_at(tail.end, tail.size - tail.end)
        if torn.strip(b"\0"):
            files.make_dir(f"{directory}/{QUARANTINE}")
            name = f"{tail.end}-{time_ns}.torn"
            replace_file(files, f"{directory}/{QUARANTINE}", name, torn)
            done.append(f"{directory}: cut {len(torn)} bytes of a torn commit, kept in {QUARANTINE}/{name}")
        file.truncate(tail.end)
    if tail.end > tail.begin:
        write_fully(file, tail.begin, file.read_at(tail.begin, tail.end - tail.begin))
    if tail.size > tail.begin:
        file.sync()
    return done
