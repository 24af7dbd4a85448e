"""What knows how far a log reached, besides its segments and its mark: indexes, snapshots, checkpoints, projections.

Each of them was written after what it speaks of was durable, and positions are never used twice. So a log that ends
before one of them has lost its end, whatever its segments say. What belongs to another store says nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from tallystick.engines.files import index_file
from tallystick.engines.files.segments import Segments
from tallystick.engines.tables.side_tables import recorded_checkpoints
from tallystick.store.filesystem import File, FileSystem
from tallystick.store.page import Hole

BESIDE = "beside.db"
SNAPSHOTS_MAX = 16  # the newest by name: their names rise with time
_HEAD_BYTES = 4096
_GZIP = zlib.MAX_WBITS | 16
_POSITION = re.compile(
    rb'"kind":"full",("last_event_id":[^,]*,"last_sequence":\d+,)?"link":"[0-9a-f]{64}","made":\d+,"position":(\d+),'
)


class KnownPosition(msgspec.Struct, frozen=True):
    """A position that was durable, who says so, and the store it was in (empty: it does not say)."""

    position: int
    by: str
    store_id: bytes = b""
    identity: bytes = b""


def gather(files: FileSystem, directory: str) -> list[KnownPosition]:
    """Everything that says how far the log in a directory reached."""
    beside = f"{directory}/{BESIDE}"
    found = [*_of_indexes(files, directory), *_of_snapshots(files, directory)]
    if files.exists(beside):
        found += [
            KnownPosition(position, f"{BESIDE}: {name}", store_id)
            for name, store_id, position in recorded_checkpoints(beside)
        ]
    return found


def farthest(known: Sequence[KnownPosition], segments: Segments) -> KnownPosition | None:
    """What is farthest behind the end of the log; None if nothing is."""
    last = segments[-1]
    ours = [each for each in known if each.store_id in (b"", last.header.store_id)]
    found = max(ours, key=lambda each: each.position, default=None)
    return found if found is not None and found.position >= last.next_position else None


def with_lost_end(holes: Sequence[Hole], known: Sequence[KnownPosition], segments: Segments) -> list[Hole]:
    """The holes, and the end of the log that is lost: one that is known already may reach further."""
    found, end = farthest(known, segments), segments[-1].next_position
    if found is None or found.position <= max([0, *(hole.last for hole in holes)]):
        return list(holes)
    kept = [hole for hole in holes if hole.first < end]
    reasons = [hole.reason for hole in holes if hole.first >= end]
    reason = "; ".join([*reasons, f"the end of the log is lost: {found.by} knows position {found.position}"])
    return [*kept, Hole(end, found.position, reason)]


def _of_indexes(files: FileSystem, directory: str) -> Iterator[KnownPosition]:
    for name, file in _opened(files, f"{directory}/index", ".idx"):
        found = index_file.coverage_in(file)
        if found is not None:
            yield KnownPosition(found.next_position - 1, f"index/{name}", found.store_id, found.identity)


def _of_snapshots(files: FileSystem, directory: str) -> Iterator[KnownPosition]:
    """Full ones: a difference is further than what it builds on, but says so behind its body."""
    for name, file in _opened(files, f"{directory}/snapshots", ".snap", newest=SNAPSHOTS_MAX):
        try:
            head = zlib.decompressobj(wbits=_GZIP).decompress(file.read_at(0, _HEAD_BYTES), _HEAD_BYTES)
        except zlib.error:
            continue
        if found := _POSITION.search(head):
            yield KnownPosition(int(found[2]), f"snapshots/{name}")


def _opened(files: FileSystem, folder: str, suffix: str, *, newest: int = 0) -> Iterator[tuple[str, File]]:
    """The files of a folder, opened one after the other; what cannot be read says nothing."""
    names = [name for name in files.list(folder) if name.endswith(suffix)] if files.exists(folder) else []
    for name in names[-newest:]:
        try:
            file = files.open_read(f"{folder}/{name}")
        except OSError:
            continue
        try:
            yield name, file
        finally:
            file.close()
