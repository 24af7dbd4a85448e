"""Joining sealed segments that lie side by side below the floor, so that their number does not grow with the days.

What is left of a segment after a prune is little: control facts, ids of pruned events, side records. Such segments are
written as one, the next generation of the last of them: it has that one's id and name, so its follower still names it,
and begins where the first one began. A side record names the ids of the others. In this order, each step durable:

1. the joined segment is written beside its name, synced, read back, and renamed over the last one
2. for each of the others: its index is removed, then its file

A crash leaves the old segments, or the joined one and some of the old ones beside it. A segment that a joined one names
and covers is no part of the log any more: it is left out by everyone who opens the log, and removed by the writer.
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
from tallystick.engines.files.segments import Segment
from tallystick.store.filesystem import FileSystem

JOINED_BYTES_MAX = 4 << 20  # uncompressed; what is larger stays alone
RECORD = "joined"


def runs(sealed: Iterable[Segment], *, floor: int) -> Iterator[list[Segment]]:
    """Neighbours below the floor that together are small enough to be one segment."""
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


def pieces_of(
    run: list[Segment], handles: Handles, remains_of: Callable[[Segment], KeepFilter]
) -> Iterator[FrameDraft]:
    """The frames of all of them as they shall be kept, the first of them with the ids of those that are joined."""
    kept = (rewrite.pieces_of(item, handles, remains_of(item)) for item in run)
    pieces = rewrite.joined(itertools.chain.from_iterable(kept))
    at, created = run[0].header.first_position, run[0].header.created
    first = next(pieces, FrameDraft(at, at, created, [], []))
    first.side.append((RECORD, b"".join(item.header.segment_id for item in run[:-1])))
    yield first
    yield from pieces


def absorbed(segments: list[Segment], handles: Handles) -> list[Segment]:
    """Those of these segments, in order, that are in a joined one which is there too."""
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
    """Remove the files of absorbed segments, durably; returns those that somebody has open where that forbids it."""
    files, directory = handles.files, handles.directory
    if not names:
        return []
    bare = [name for name in names if _is_removed(files, f"{directory}/index/{name.removesuffix('.log')}.idx")]
    files.sync_dir(f"{directory}/index")  # first: no index is left without a segment, for no one would remove it
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
