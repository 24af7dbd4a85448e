"""How far a log must have reached: positions known to its indexes, snapshots, checkpoints and projections.

Each of these was written after the position that it names was durable, and positions are never used twice. So a log
that ends before one of them has lost its end, whatever its segments and its mark say. Positions of another store do not
count.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import msgspec

from tallystick.engines.files import index_file
from tallystick.engines.files.segments import Segment
from tallystick.engines.tables.side_tables import recorded_checkpoints
from tallystick.store.filesystem import File, FileSystem
from tallystick.store.page import Hole

BESIDE = "beside.db"
SNAPSHOTS_MAX = 16  # the newest, because their names rise with time
_HEAD_BYTES = 4096
_GZIP = zlib.MAX_WBITS | 16
_POSITION = re.compile(
    rb'"kind":"full",("last_event_id":[^,]*,"last_sequence":\d+,)?"link":"[0-9a-f]{64}","made":\d+,"position":(\d+),'
)


class KnownPosition(msgspec.Struct, frozen=True):
    """A position that was durable, the file that says so, and its store (empty if the file does not say)."""

    position: int
    by: str
    store_id: bytes = b""
    identity: bytes = b""


def gather(files: FileSystem, directory: str) -> list[KnownPosition]:
    """Every position that is known of the log in a directory."""
    beside = f"{directory}/{BESIDE}"
    found = [*_of_indexes(files, directory), *_of_snapshots(files, directory)]
    if files.exists(beside):
        found += [
            KnownPosition(position, f"{BESIDE}: {name}", store_id)
            for name, store_id, position in recorded_checkpoints(beside)
        ]
    return found


def farthest(known: Sequence[KnownPosition], last: Segment, end: int) -> KnownPosition | None:
    """The farthest known position of this store; None if none is at or after `end`, where its last segment ends."""
    ours = [each for each in known if each.store_id in (b"", last.header.store_id) and each.position >= end]
    return max(ours, key=lambda each: each.position, default=None)


def with_lost_end(holes: Sequence[Hole], known: Sequence[KnownPosition], last: Segment) -> list[Hole]:
    """The holes, and one for the lost end of the log, unless a hole reaches as far."""
    end = last.next_position
    found = farthest(known, last, end)
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
    """Those of full snapshots. A difference names its position only after its body."""
    for name, file in _opened(files, f"{directory}/snapshots", ".snap", newest=SNAPSHOTS_MAX):
        try:
            head = zlib.decompressobj(wbits=_GZIP).decompress(file.read_at(0, _HEAD_BYTES), _HEAD_BYTES)
        except zlib.error:
            continue
        if found := _POSITION.search(head):
            yield KnownPosition(int(found[2]), f"snapshots/{name}")


def _opened(files: FileSystem, folder: str, suffix: str, *, newest: int = 0) -> Iterator[tuple[str, File]]:
    """The files of a folder, opened one after the other; those that cannot be opened are left out."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = [name for name in files.list(folder) if name.endswith(suffix)]
    for name in names[-newest:]:
        with suppress(OSError), closing(files.open_read(f"{folder}/{name}")) as file:
            yield name, file
