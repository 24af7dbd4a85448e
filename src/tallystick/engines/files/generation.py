"""Which files of a directory are one segment: its generations and its copies, and which one of them counts.

The highest generation counts; older ones are left over from a crash or put back from a backup. Two files of the same
generation are the same segment twice if they have the same bytes. If they have not, nobody can say which one is right:
both stay, and the log is damaged there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from tallystick.engines.files import segment
from tallystick.engines.files.segments import Segment, SegmentSet
from tallystick.store.filesystem import File, FileSystem

_COMPARE_BYTES = 1 << 20


def set_apart(segments: list[Segment], files: FileSystem, directory: str) -> list[Segment]:
    """The segments that are superfluous: older generations, and copies of one that counts."""
    by_id: dict[bytes, list[Segment]] = {}
    for item in segments:
        by_id.setdefault(item.header.segment_id, []).append(item)
    superfluous: list[Segment] = []
    for same in by_id.values():
        if len(same) > 1:
            superfluous += _superfluous(same, files, directory)
    return superfluous


def _superfluous(same: list[Segment], files: FileSystem, directory: str) -> list[Segment]:
    newest = max(item.header.generation for item in same)
    found = [item for item in same if item.header.generation < newest]
    first, *others = sorted(
        (item for item in same if item.header.generation == newest),
        key=lambda item: (item.name != segment.CURRENT, not files.exists(_index(directory, item)), item.name),
    )
    return found + [
        item for item in others if _same_bytes(files, f"{directory}/{first.name}", f"{directory}/{item.name}")
    ]


def _index(directory: str, item: Segment) -> str:
    """Where the index of a segment lies: a copy has none."""
    return f"{directory}/index/{item.index_name}"


def _same_bytes(files: FileSystem, one: str, other: str) -> bool:
    first, second = files.open_read(one), files.open_read(other)
    try:
        return first.size() == second.size() and _equal(first, second)
    finally:
        first.close()
        second.close()


def _equal(first: File, second: File) -> bool:
    return all(
        first.read_at(at, _COMPARE_BYTES) == second.read_at(at, _COMPARE_BYTES)
        for at in range(0, first.size(), _COMPARE_BYTES)
    )


def org_in(older: list[Segment], stream: str) -> str | None:
    """The org of a stream as these segments know it."""
    for item in reversed(older):
        entry = item.stream(stream)
        if entry is not None:
            return entry.head.org
    return None


def with_generation(segments: SegmentSet, fresh: Segment, absorbed: Collection[bytes]) -> SegmentSet:
    """The segments with a new generation of one of them in its place, and without those that it took in, by id."""
    left = [item for item in segments if item.header.segment_id not in absorbed]
    items = [fresh if item.header.segment_id == fresh.header.segment_id else item for item in left]
    for number, item in enumerate(items):
        item.org_before = functools.partial(org_in, items[:number])
    return SegmentSet(items)
