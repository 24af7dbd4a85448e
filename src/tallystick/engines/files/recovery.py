"""What happens at opening for writing: finish what a crash interrupted, and tell a torn tail from damage.

| found past the last valid frame of the current segment              | done                                        |
|---------------------------------------------------------------------|---------------------------------------------|
| nothing, and the mark is here or behind                             | opened                                      |
| valid frames past the mark                                          | written again in place and synced, then kept |
| bytes past the mark that are no frame, no valid frame behind them   | copied to quarantine, synced, cut           |
| anything invalid before the mark, or with a valid frame behind it   | damage: read-only, the hole named, no change |
| the end before the mark                                             | damage likewise                             |

Valid frames past the mark are written again because an fsync of the process before may have failed: the kernel then
calls the pages clean, and syncing them again would do nothing.
"""

from __future__ import annotations

import msgspec

from tallystick.engines.files import segment
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.segments import Segment
from tallystick.store.filesystem import File, FileSystem, pieces, replace_file, write_fully
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
    found = Recovery(end=item.header.size, synced_end=synced, holes=item.index_all(file, end=size))
    if item.covered_end < synced:
        _note_short(item, mark, found)
    found.end = item.covered_end
    found.torn_bytes = size - item.covered_end
    return found


def _synced_end(item: Segment, mark: SegmentMark | None) -> int:
    """How far the segment is certainly on disk: the mark says it, or an index that was written after a sync.

    A rewritten segment was synced before it had its name.
    """
    if item.header.ending is not None:
        return item.header.ending.end
    marked = mark.end if mark is not None and mark.segment_id == item.header.segment_id else segment.SIZE
    return max(marked, item.known_end, item.base.covered_end if item.base is not None else 0)


def _note_short(item: Segment, mark: SegmentMark | None, found: Recovery) -> None:
    last = max((mark.next_position if mark is not None else 0) - 1, item.known_next - 1, item.next_position)
    reason = f"{item.name} is damaged or cut at byte {item.covered_end}, before the synced mark at {found.synced_end}"
    found.holes.append(Hole(item.next_position, last, reason))


def settle(files: FileSystem, directory: str, item: Segment, file: File, found: Recovery, *, time_ns: int) -> list[str]:
    """Make the end of an undamaged log durable: quarantine and cut a torn tail, write an unsynced one again."""
    done: list[str] = []
    if found.torn_bytes:
        size, end = found.torn_bytes, found.end + found.torn_bytes
        if any(data.count(0) < len(data) for data in pieces(file, found.end, end)):
            name = f"{item.name}.{found.end}.{time_ns}"
            replace_file(files, f"{directory}/quarantine", name, pieces(file, found.end, end))
            done.append(f"cut {size} torn bytes off {item.name} at {found.end}; kept as quarantine/{name}")
        else:
            done.append(f"cut {size} zero bytes off {item.name} at {found.end}")
        file.truncate(found.end)
    if found.end > found.synced_end:
        _write_again(file, found.synced_end, found.end)
        done.append(f"wrote {found.end - found.synced_end} unsynced bytes of {item.name} again and synced them")
    if done:
        file.sync()
    return done


def _write_again(file: File, begin: int, end: int) -> None:
    for data in pieces(file, begin, end):
        write_fully(file, begin, data)
        begin += len(data)
