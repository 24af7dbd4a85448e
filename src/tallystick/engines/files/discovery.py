"""What is in a log's directory: segments in order, what is missing between them, and what is not ours.

Several files may be one segment. The highest generation counts; older ones are left over from a crash, or were put back
from a backup. Two files of one generation are the same segment twice if they have the same bytes. If not, nobody can
say which one is right: both stay, and the log is damaged there.
"""

from __future__ import annotations

import errno
import functools
import itertools
from collections.abc import Sequence
from contextlib import closing

import msgspec

from tallystick import errors
from tallystick.engines import damage_file
from tallystick.engines.files import joined_segments, segment
from tallystick.engines.files.compressed import open_segment
from tallystick.engines.files.handles import Handles, Renamed
from tallystick.engines.files.known_positions import BESIDE, KnownPosition
from tallystick.engines.files.mark import NAME as MARK_NAME
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.segments import Segment, org_in
from tallystick.store.page import Hole

OWN_NAMES = frozenset({segment.CURRENT, MARK_NAME, "lock", "index", "snapshots", "quarantine"})
BESIDE_THE_LOG = (BESIDE, damage_file.NAME)
OF_THE_PROCESS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.ENOSPC})
"""Reasons of this process or machine why a file cannot be opened. They say nothing about the file."""

UNKNOWN_END = "the synced mark is lost too, so it is not known how far the log reached"

_COMPARE_BYTES = 1 << 20
TEMPORARY = (f"{segment.CURRENT}.tmp", f"{MARK_NAME}.tmp")


class Discovery(msgspec.Struct):
    """What was found in a directory."""

    segments: list[Segment]
    holes: list[Hole]
    unknown: list[str]
    temporary: list[str]
    vanished: bool = False
    current_damage: str = ""
    superfluous: list[str] = []
    absorbed: list[str] = []
    is_open_ended: bool = False  # the end is lost, and so is the mark that says how far the log reached
    headless: list[str] = []


def discover(handles: Handles, mark: SegmentMark | None) -> Discovery:
    """Look at a directory. This reads the headers of segments and indexes, but no frame."""
    names = handles.files.list(handles.directory)
    found = Discovery([], [], [], [name for name in names if is_temporary(name)])
    for name in names:
        if name == segment.CURRENT or segment.SEALED.fullmatch(name):
            _add_segment(handles, name, found)
        elif name not in OWN_NAMES and not is_temporary(name) and not name.startswith(BESIDE_THE_LOG):
            found.unknown.append(name)
    _sort(found.segments)
    _keep_one_store(found)
    _leave_out(found, handles)
    for number, item in enumerate(found.segments):
        older = found.segments[:number]
        item.org_before = functools.partial(org_in, older)
        _set_end(item, found.segments[number + 1] if number + 1 < len(found.segments) else None)
        item.load_index()
    _find_gaps(found, mark)
    return found


def is_temporary(name: str) -> bool:
    """Whether a file was staged, and not yet put in place."""
    return name in TEMPORARY or segment.STAGED.fullmatch(name) is not None


def _add_segment(handles: Handles, name: str, found: Discovery) -> None:
    """Read the header of one segment. Without it the file is unknown, and its positions will be a hole."""
    path = f"{handles.directory}/{name}"
    try:
        header, file = open_segment(handles.files, path)
    except FileNotFoundError:  # renamed since the directory was listed
        found.vanished = True
        return
    except (OSError, segment.BadHeader) as problem:
        if isinstance(problem, OSError) and problem.errno in OF_THE_PROCESS:
            raise errors.ReadFailed(path=path, reason=str(problem)) from problem
        found.unknown.append(f"{name} ({problem})")
        found.headless.append(name)
        if name == segment.CURRENT:
            found.current_damage = f"{name}: {problem}"
        return
    item = Segment(name, header, handles, end=file.size())
    found.segments.append(item)
    handles.keep(item, file)


def _keep_one_store(found: Discovery) -> None:
    """Leave out segments of another store. The current segment says which store this is, or the majority."""
    stores = [item.header.store_id for item in found.segments]
    if len(set(stores)) <= 1:
        return
    current = [item.header.store_id for item in found.segments if item.name == segment.CURRENT]
    ours = current[0] if current else max(set(stores), key=stores.count)
    for item in [item for item in found.segments if item.header.store_id != ours]:
        found.segments.remove(item)
        found.unknown.append(f"{item.name} (a segment of another store, {item.header.store_id.hex()})")


def _sort(segments: list[Segment]) -> None:
    """Put segments in order. Where a segment without events begins with the next one, headers say the order."""
    segments.sort(key=lambda item: (item.header.first_position, item.name == segment.CURRENT))
    groups = [list(same) for _, same in itertools.groupby(segments, key=lambda item: item.header.first_position)]
    segments[:] = [item for same in groups for item in _linked(same)]


def _linked(same: list[Segment]) -> list[Segment]:
    """Segments that begin at one position, each after the one that its header names."""
    followers: dict[bytes, list[Segment]] = {}
    ids = {item.header.segment_id for item in same}
    for item in same:
        followers.setdefault(item.header.previous_id if item.header.previous_id in ids else b"", []).append(item)
    ordered: list[Segment] = []
    waiting = followers.pop(b"", [])
    while waiting:
        item = waiting.pop(0)
        ordered.append(item)
        waiting[:0] = followers.pop(item.header.segment_id, [])
    return ordered + [item for rest in followers.values() for item in rest]


def _leave_out(found: Discovery, handles: Handles) -> None:
    """Leave out older generations, copies, and segments that were joined to another one that is there."""
    try:
        for item in _superfluous(found.segments, handles):
            found.segments.remove(item)
            found.superfluous.append(item.name)
        for item in joined_segments.absorbed(found.segments, handles):
            found.segments.remove(item)
            handles.release(item)
            (found.superfluous if item.name == segment.CURRENT else found.absorbed).append(item.name)
    except (FileNotFoundError, Renamed):  # renamed since its header was read
        found.vanished = True


def _superfluous(segments: list[Segment], handles: Handles) -> list[Segment]:
    """Older generations of segments, and copies."""
    by_id: dict[bytes, list[Segment]] = {}
    for item in segments:
        by_id.setdefault(item.header.segment_id, []).append(item)
    return [item for same in by_id.values() if len(same) > 1 for item in _superfluous_of(same, handles)]


def _superfluous_of(same: list[Segment], handles: Handles) -> list[Segment]:
    newest = max(item.header.generation for item in same)
    found = [item for item in same if item.header.generation < newest]
    first, *others = sorted(
        (item for item in same if item.header.generation == newest),
        key=lambda item: (item.name != segment.CURRENT, not _has_index(item, handles), item.name),
    )
    return found + [item for item in others if _same_bytes(first, item, handles)]


def _has_index(item: Segment, handles: Handles) -> bool:
    """Whether a segment has an index by its name: a copy has none."""
    return handles.files.exists(f"{handles.directory}/index/{item.index_name}")


def _same_bytes(one: Segment, other: Segment, handles: Handles) -> bool:
    with (
        closing(handles.files.open_read(f"{handles.directory}/{one.name}")) as first,
        closing(handles.files.open_read(f"{handles.directory}/{other.name}")) as second,
    ):
        return first.size() == second.size() and all(
            first.read_at(at, _COMPARE_BYTES) == second.read_at(at, _COMPARE_BYTES)
            for at in range(0, first.size(), _COMPARE_BYTES)
        )


def _set_end(item: Segment, following: Segment | None) -> None:
    """A sealed segment ends where its own header says, or the next one's, whatever its file holds after that."""
    item.end = min(item.end, _known_end(item, following) or item.end)


def _known_end(item: Segment, following: Segment | None) -> int:
    """Where a sealed segment must end; 0 if nothing says so."""
    if item.header.ending is not None:
        return item.header.ending.end
    if following is not None and following.header.previous_id == item.header.segment_id:
        return following.header.previous_end
    return 0


def _find_gaps(found: Discovery, mark: SegmentMark | None) -> None:
    """Name the positions that no segment holds."""
    expected, previous = 1, None
    for item in found.segments:
        first = item.header.first_position
        linked = previous is None or item.header.previous_id == previous.header.segment_id
        if previous is not None and first == previous.header.first_position and not linked:
            reason = (
                f"{previous.name} and {item.name} both begin at position {first}: a second writer or a restored copy"
            )
            found.holes.append(Hole(first, first, reason))
        elif first != expected or not linked:
            reason = f"the segment before {item.name} is missing or damaged"
            found.holes.append(Hole(min(expected, first), max(first - 1, expected), reason))
        elif previous is not None and previous.end < _known_end(previous, item):
            start = _next_position(previous)
            found.holes.append(Hole(start, first - 1, f"{previous.name} is shorter than it was"))
        previous = item
        following = found.segments.index(item) + 1
        expected = _next_position(item) if following < len(found.segments) else expected
    _compare_with_mark(found, mark)


def _compare_with_mark(found: Discovery, mark: SegmentMark | None) -> None:
    """If current.log cannot be read, or the mark names a segment that is gone, the end of the log is missing.

    No crash leaves a log without both: a mark is put in place with the first current.log, and is never removed.
    """
    names = {*found.superfluous, *(item.name for item in found.segments)}
    found.is_open_ended = mark is None and segment.CURRENT not in names
    lost = mark is not None and all(item.header.segment_id != mark.segment_id for item in found.segments)
    if not (found.current_damage or lost or found.is_open_ended):
        return
    first = _next_position(found.segments[-1]) if found.segments else 1
    last = max((mark.next_position if mark is not None else 0) - 1, first)
    reason = found.current_damage or "the segment that was written last is missing or damaged"
    found.holes.append(Hole(first, last, f"{reason}{'; ' + UNKNOWN_END if found.is_open_ended else ''}"))


def _next_position(item: Segment) -> int:
    """The position after the last one of a sealed segment: from its index if that covers it, otherwise by a scan."""
    if item.base is not None and item.base.covered_end == item.end:
        return item.base.next_position
    if item.header.ending is not None and item.header.ending.end == item.end:
        return item.header.ending.next_position
    scanner = item.scanner()
    for _ in scanner:
        pass
    return scanner.position or item.header.first_position


def require_segments(
    found: Discovery, directory: str, mark: SegmentMark | None, known: Sequence[KnownPosition]
) -> None:
    """Refuse a directory without a readable segment."""
    if found.segments:
        return
    last = max((mark.next_position if mark else 2) - 1, 1, *(reached.position for reached in known))
    reason = f"no segment of {directory} can be read: " + ("; ".join(found.unknown) or "the directory has no segments")
    raise errors.Damaged(first=1, last=last, reason=reason)
