"""Recovery at opening for writing: finish what a crash interrupted, and distinguish a torn tail from damage.

| found at the end of the current segment                             | done                                        |
|---------------------------------------------------------------------|---------------------------------------------|
| only valid frames, up to the mark                                   | opened                                      |
| valid frames past the mark                                          | written again in place and synced, then kept |
| bytes past the mark that are not a frame, no valid frame after them | copied to quarantine, synced, cut           |
| invalid bytes before the mark, or with a valid frame after them     | damage: read-only, the hole named, no change |
| the end before the mark                                             | damage: the same                            |

Valid frames past the mark are written again because an fsync of the process before may have failed. The kernel then
considers the pages clean, and a further fsync would do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import msgspec

from tallystick.engines.files import segment
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.segments import Segment
from tallystick.store.filesystem import File, pieces, replace_file, write_fully
from tallystick.store.page import Hole


class Recovery(msgspec.Struct):
    """What was found at the end of the log."""

    end: int
    synced_end: int
    torn_bytes: int = 0
    holes: list[Hole] = []


def examine(item: Segment, file: File, mark: SegmentMark | None) -> Recovery:
    """Index the current segment to its end and classify what does not check out. Changes nothing on disk."""
    ending = item.header.ending
    size = file.size() if ending is None else min(file.size(), ending.end)
    synced = _synced_end(item, mark)
    holes = item.index_all(file, end=size)
    end = item.covered_end
    if end < synced:
        holes.append(_short(item, mark, end, synced))
    return Recovery(end=end, synced_end=synced, torn_bytes=size - end, holes=holes)


def _synced_end(item: Segment, mark: SegmentMark | None) -> int:
    """How far the segment is certainly on disk: the mark says it, or an index that was written after a sync.

    A rewritten segment was synced before it had its name.
    """
    if item.header.ending is not None:
        return item.header.ending.end
    marked = mark.end if mark is not None and mark.segment_id == item.header.segment_id else segment.SIZE
    base = item.base
    return max(marked, item.known_end, base.covered_end if base is not None else 0)


def _short(item: Segment, mark: SegmentMark | None, end: int, synced: int) -> Hole:
    """The hole at the end of a segment that ends before what was synced."""
    first = item.next_position
    last = max((mark.next_position if mark is not None else 0) - 1, item.known_next - 1, first)
    return Hole(first, last, f"{item.name} is damaged or cut at byte {end}, before the synced mark at {synced}")


def finish(handles: Handles, item: Segment, found: Recovery, *, clock: Callable[[], int]) -> list[str]:
    """Make the end of an undamaged log durable: quarantine and cut a torn tail, write an unsynced one again."""
    if not found.torn_bytes and found.end <= found.synced_end:
        return []
    with closing(handles.files.open_write(f"{handles.directory}/{item.name}")) as file:
        done = [_cut(handles, item, file, found, clock=clock)] if found.torn_bytes else []
        if found.end > found.synced_end:
            _write_again(file, found.synced_end, found.end)
            done.append(f"wrote {found.end - found.synced_end} unsynced bytes of {item.name} again and synced them")
        file.sync()
    return done


def _cut(handles: Handles, item: Segment, file: File, found: Recovery, *, clock: Callable[[], int]) -> str:
    """Cut a torn tail; it is kept in quarantine, unless it is all zeros."""
    size, end = found.torn_bytes, found.end + found.torn_bytes
    if any(data.count(0) < len(data) for data in pieces(file, found.end, end)):
        name = f"{item.name}.{found.end}.{clock()}"
        replace_file(handles.files, f"{handles.directory}/quarantine", name, pieces(file, found.end, end))
        done = f"cut {size} torn bytes off {item.name} at {found.end}; kept as quarantine/{name}"
    else:
        done = f"cut {size} zero bytes off {item.name} at {found.end}"
    file.truncate(found.end)
    return done


def _write_again(file: File, begin: int, end: int) -> None:
    for data in pieces(file, begin, end):
        write_fully(file, begin, data)
        begin += len(data)
