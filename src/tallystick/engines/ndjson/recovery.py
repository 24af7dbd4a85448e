"""What lies behind the synced mark, and what becomes of it when a writer takes a run.

| found behind the mark                                               | done                                         |
|---------------------------------------------------------------------|----------------------------------------------|
| whole commits                                                       | written again in place and synced, then kept |
| a commit that is not whole, and nothing of a later commit behind it | copied to quarantine, synced, cut            |
| the same with a line of a later commit behind it                    | damage: refused, no change                   |

Whole commits are written again because an fsync of the process before may have failed: the kernel then calls the
pages clean, and syncing them again would do nothing.
"""

from __future__ import annotations

import msgspec

from tallystick.engines.ndjson import scan
from tallystick.engines.ndjson.index import Index
from tallystick.engines.ndjson.scan import Piece
from tallystick.event import chain
from tallystick.store.filesystem import File, FileSystem, replace_file, write_fully

QUARANTINE = "quarantine"
EVENTS = "events.ndjson"


class Tail(msgspec.Struct):
    """The bytes behind the mark: up to `end` they are whole commits, behind it a torn one. `damage` says what else."""

    begin: int
    end: int
    size: int
    kept: list[Piece]
    damage: str = ""


def examine(index: Index, stream: str, file: File) -> Tail:
    """Look at what is behind the lines that are indexed, and change nothing."""
    size = file.size()
    tail = Tail(index.end, index.end, size, [])
    commit: list[Piece] = []
    seq, link = index.seq, index.link
    torn = False
    for piece in scan.pieces(file, begin=index.end, end=size):
        found = piece.line
        if torn or found is None or found.stream != stream or not _follows(piece, seq, link, commit, index.number):
            torn = True
            if found is not None and found.stream == stream and found.commit[0] > _next_commit(tail, index):
                tail.damage = f"{stream}: the log is damaged behind byte {tail.end}: a later commit follows"
            continue
        commit.append(piece)
        seq, link = found.seq, bytes.fromhex(found.link)
        if seq == found.commit[1]:
            tail.kept += commit
            tail.end = piece.end
            commit = []
    return tail


def _next_commit(tail: Tail, index: Index) -> int:
    """The first seq of the commit that is torn."""
    last = tail.kept[-1].line if tail.kept else None
    return (last.seq if last is not None else index.seq) + 1


def _follows(piece: Piece, seq: int, link: bytes, commit: list[Piece], number: int) -> bool:
    """Whether a line is the next of its stream, in its place within its commit, and true to its hashes."""
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


def settle(files: FileSystem, directory: str, file: File, tail: Tail, *, time_ns: int) -> list[str]:
    """Finish what a crash interrupted: keep whole commits durably, put the torn one aside. Says what was done."""
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
