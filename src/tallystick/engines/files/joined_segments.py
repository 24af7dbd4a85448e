"""Joining neighbouring sealed segments below the floor, so that their number does not grow with every day.

Little is left of a segment after a prune: control facts, ids of pruned events, side records. Such segments are written
as one, the next generation of the last of them. It has the id and the name of that segment, so that its follower still
names it, and it begins where the first one began. A side record lists the ids of the others. Each step is durable
before the next one:

1. The joined segment is staged as NAME.log.tmp, synced, read back, and renamed over the last segment.
2. For each of the others, its index is removed, and then its file.

A crash leaves the old segments, or the joined one and some of the old ones. A segment that a joined one names and
covers is no longer part of the log: everyone who opens the log leaves it out, and the writer removes it.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tallystick.engines.files import frame as frames
from tallystick.engines.files import rewrite, side
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.rewrite import FrameDraft, KeepFilter
from tallystick.engines.files.scan import Scanner
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Segment, derived_names
from tallystick.store.filesystem import FileSystem

JOINED_BYTES_MAX = 4 << 20  # uncompressed; a larger segment is not joined
RECORD = "joined"


def runs(sealed: Iterable[Segment], *, floor: int) -> Iterator[list[Segment]]:
    """Neighbours below the floor that are together small enough for one segment."""
    run: list[Segment] = []
    size = 0
    for item in sealed:
        fits = item.next_position - 1 <= floor and not item.gaps and item.end <= JOINED_BYTES_MAX
        if not fits or size + item.end > JOINED_BYTES_MAX:
            if len(run) > 1:
                yield run
            run, size = [], 0
        if fits:
            run.append(item)
            size += item.end
    if len(run) > 1:
        yield run


def header_of(run: list[Segment]) -> Header:
    """The header of the joined segment, without its ending."""
    first, last = run[0].header, rewrite.next_generation(run[-1].header)
    return msgspec.structs.replace(
        last,
        first_position=first.first_position,
        created=first.created,
        previous_id=first.previous_id,
        previous_end=first.previous_end,
    )


def frames_of(run: list[Segment], keep_of: Callable[[Segment], KeepFilter]) -> Iterator[FrameDraft]:
    """The frames to keep of all of them. The first frame lists the ids of the segments that are joined."""
    kept = (rewrite.frames_of(item, keep_of(item)) for item in run)
    drafts = rewrite.with_empty_joined(itertools.chain.from_iterable(kept))
    at, created = run[0].header.first_position, run[0].header.created
    first = next(drafts, FrameDraft(at, at, created, [], []))
    first.side.append((RECORD, b"".join(item.header.segment_id for item in run[:-1])))
    yield first
    yield from drafts


def absorbed(segments: list[Segment], handles: Handles) -> list[Segment]:
    """Those of these segments, in order, that were joined into another one of them."""
    firsts = [item.header.first_position for item in segments]
    found: list[Segment] = []
    for whole in segments:
        header = whole.header
        if header.ending is None:
            continue
        begin = bisect.bisect_left(firsts, header.first_position)
        end = bisect.bisect_right(firsts, header.ending.next_position)
        inside = [item for item in segments[begin:end] if not _is_neighbour(item.header, header)]
        if inside:
            ids = frozenset(_joined_ids(whole, handles))
            found += [item for item in inside if item.header.segment_id in ids and item not in found]
    return found


def _is_neighbour(header: Header, whole: Header) -> bool:
    """Whether this is the segment itself, or the one before or after it."""
    return header.segment_id in (whole.segment_id, whole.previous_id) or header.previous_id == whole.segment_id


def _joined_ids(whole: Segment, handles: Handles) -> Iterator[bytes]:
    """The ids of the segments that were joined into this one."""
    header = whole.header
    assert header.ending is not None
    offset, end, position = header.size, header.ending.end, header.first_position
    for frame, data in Scanner(handles.get(whole), header.identity, offset=offset, end=end, position=position):
        for name, *fields in frames.decode_side(frame, data):
            if name == RECORD:
                yield from side.split(fields[0])


def remove(handles: Handles, names: list[str]) -> list[str]:
    """Remove the files of absorbed segments, durably; returns those that cannot be removed while they are open."""
    files, directory = handles.files, handles.directory
    bare = [
        name for name in names if all(_is_removed(files, f"{directory}/index/{one}") for one in derived_names(name))
    ]
    files.sync_dir(f"{directory}/index")  # first: nobody would remove an index that is left without its segment
    gone = [name for name in bare if _is_removed(files, f"{directory}/{name}")]
    files.sync_dir(directory)
    return [name for name in names if name not in gone]


def _is_removed(files: FileSystem, path: str) -> bool:
    if files.exists(path):
        try:
            files.unlink(path)
        except PermissionError:
            return False
    return True
