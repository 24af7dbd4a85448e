"""What `verify` and `doctor` check in a file log besides its events: frames, the ends of segments, indexes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

from tallystick import errors
from tallystick.engines.files import index_file, index_writer, segment
from tallystick.engines.files.compressed import CompressedFile, open_segment
from tallystick.engines.files.handles import Handles, Renamed
from tallystick.engines.files.index_file import SectionCache
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.rewrite import encoding_of
from tallystick.engines.files.scan import read_frame
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Segment, Segments
from tallystick.engines.files.snapshots import FileSnapshots
from tallystick.engines.files.tag_file import SealedTags
from tallystick.engines.files.view import LogView
from tallystick.engines.files.writer import SegmentWriter
from tallystick.store.events import Problem
from tallystick.store.filesystem import File, size_of
from tallystick.store.page import Hole
from tallystick.store.reasons import TAG_FILE

TAG_PROBLEMS_MAX = 100  # of one segment


def problems(view: LogView, progress: Callable[[int], None]) -> Iterator[Problem]:
    """What is wrong with segments and indexes as they are on the disk: nothing that is in memory is used."""
    view.reader.forget_all()
    view.handles.release_all()
    for item in view.segments:
        try:
            yield from view.retry_on_swap(functools.partial(_problems_of, view, item.header.segment_id))
        except errors.ReadFailed:
            if view.handles.files.exists(f"{view.handles.directory}/{item.name}"):
                raise
            first, reason = item.header.first_position, f"{item.name} is missing"
            view.note_hole(Hole(first, max(item.next_position - 1, first), reason))
        progress(item.next_position - 1)
    yield from view.retry_on_swap(lambda: list(_repeated_ids(view.segments)))


def _problems_of(view: LogView, segment_id: bytes) -> list[Problem]:
    """What is wrong with the newest generation of a segment; nothing if it was joined to another one."""
    items = view.segments
    number = next((at for at, item in enumerate(items) if item.header.segment_id == segment_id), None)
    if number is None:
        return []
    following = items[number + 1].header.first_position if number + 1 < len(items) else None
    return _segment_problems(items[number], view.handles, following)


def _segment_problems(item: Segment, handles: Handles, following: int | None) -> list[Problem]:
    """What is wrong with one segment on the disk, and with its index: every frame of it is read and verified.

    Lost events are found by reading them. Frames without events, which no read passes, are reported here. `following`
    is where the next segment begins.
    """
    end, path = item.end, f"{handles.directory}/{item.name}"
    try:
        header, file = open_segment(handles.files, path)
    except segment.BadHeader as problem:
        return [Problem("segment", f"{item.name}: {problem}", item.header.first_position)]
    with closing(file):
        if header.identity != item.identity:
            raise Renamed(item.name)
        if header != item.header:
            return [Problem("segment", f"{item.name} has another header", item.header.first_position)]
        found = _body_problems(item, _unindexed(item, header, handles), file, end, following)
        if isinstance(file, CompressedFile) and not file.has_table:
            reason = f"{item.name}: its table of compressed members is damaged; it is read by walking over the members"
            found.append(Problem("segment", reason, item.header.first_position))
        return found


def _unindexed(item: Segment, header: Header, handles: Handles) -> Segment:
    """The segment without an index, to be indexed from its bytes."""
    fresh = Segment(item.name, header, handles, end=item.end)
    fresh.org_before = item.org_before
    return fresh


def _body_problems(item: Segment, fresh: Segment, file: File, end: int, following: int | None) -> list[Problem]:
    found: list[Problem] = []
    holes: list[Hole] = []
    for covered, compare in sorted(_derived(item), key=lambda each: each[0]):
        holes += fresh.index_all(file, end=min(covered, end))
        if not holes:
            found += compare(item, fresh, file)
    holes += fresh.index_all(file, end=end)
    found += [_frame_problem(item, hole.reason, hole.first) for hole in holes if hole.first == hole.last]
    if fresh.covered_end < end and fresh.next_position >= (following or item.next_position):
        found.append(_frame_problem(item, f"{item.name} is damaged at byte {fresh.covered_end}", fresh.next_position))
    return found


def _derived(item: Segment) -> Iterator[tuple[int, Callable[[Segment, Segment, File], Iterable[Problem]]]]:
    """What there is on the disk that follows from the segment: how far it covers the segment, and how to compare it."""
    if item.base is not None:
        yield item.base.covered_end, _index_problems
    try:
        base = item.tags.on_disk(SectionCache())
    except (index_file.BadIndex, OSError):  # it is made again when a query asks
        item.tags.forget()
    else:
        yield base.covered_end, functools.partial(_tag_problems, base)


def _tag_problems(base: SealedTags, item: Segment, fresh: Segment, file: File) -> Iterator[Problem]:
    """Compare the tags on the disk with those that were just taken from the segment."""
    name = f"index/{item.tags.file_name}"
    try:
        found = list(itertools.islice(fresh.tags.differences(base), TAG_PROBLEMS_MAX))
        yield from (Problem(TAG_FILE, f"{name} and its segment differ: {what}", position) for position, what in found)
        if found:
            item.tags.distrust()
    except index_file.MalformedIndex as problem:
        yield Problem(TAG_FILE, f"{name}: {problem}", item.header.first_position)
        item.tags.distrust()
    except (index_file.BadIndex, OSError):  # it gives no wrong answer, and is made again: the report counts it
        item.tags.forget()


def _frame_problem(item: Segment, reason: str, position: int) -> Problem:
    return Problem("frame", f"{reason}: one event, or a frame without events (leases, commands)", position)


def _index_problems(item: Segment, fresh: Segment, file: File) -> Iterator[Problem]:
    """Compare the index on the disk with one that was just made from the segment."""
    name = f"index/{item.index_name}"
    try:
        base = item.index_on_disk()
        if base is None:  # it is built again when it is needed
            return
        for what in index_writer.differences(base, fresh.grow()):
            yield Problem("index", f"{name} and its segment differ in {what}", item.header.first_position)
        identity, end = item.identity, fresh.covered_end
        for position, offset in base.frames():
            frame = read_frame(file, identity, offset, end)
            if frame is None or frame[0].first_position != position:
                yield Problem("index", f"{name} lists a frame at byte {offset} that is not there", position)
        if fresh.grow().repeated:
            yield Problem("id", f"an id appears twice in {item.name}")
    except index_file.MalformedIndex as problem:
        yield Problem("index", f"{name}: {problem}", item.header.first_position)
    except (index_file.BadIndex, OSError):  # it gives no wrong answer, and is built again: the report counts it
        item.rebuild(instead_of=item.base)


def _repeated_ids(segments: Segments) -> Iterator[Problem]:
    """Ids that are in two segments. Rising ids make ranges that hardly overlap, so few pairs are compared."""
    ranges = [(item, bounds) for item in segments if (bounds := item.id_bounds()) is not None]
    ranges.sort(key=lambda found: found[1])
    for index, (item, (_, last)) in enumerate(ranges):
        for other, (first, _) in ranges[index + 1 :]:
            if first > last:
                break
            for id_ in sorted(set(item.ids()) & set(other.ids())):
                yield Problem("id", f"the id {id_.hex()} is in {item.name} and in {other.name}")


def facts(view: LogView, *, writing: bool) -> dict[str, Any]:
    """Figures for the operator."""
    return view.retry_on_swap(lambda: _facts(view, writing=writing))


def _facts(view: LogView, *, writing: bool) -> dict[str, Any]:
    segments, handles, last = view.segments, view.handles, view.segments[-1]
    return {
        "directory": handles.directory,
        "store_id": last.header.store_id.hex(),
        "profile": last.header.profile,
        "format": segment.FORMAT,
        "segments": len(segments),
        "log_bytes": sum(_stored_bytes(item, handles) for item in segments),
        "rewritten_segments": sum(item.header.ending is not None for item in segments),
        "compressed_segments": sum(encoding_of(item.header) == segment.GZIP for item in segments),
        "current_bytes": last.end,
        "head": last.next_position - 1,
        "free_bytes": handles.files.free_bytes(handles.directory),
        "writer": "this process" if writing else "not this process",
        "indexes_rebuilt": sum(item.rebuilt for item in segments),
        "tags_rebuilt": sum(item.tags.rebuilt for item in segments),
        "quarantined": handles.files.list(f"{handles.directory}/quarantine"),
        "not_ours": view.opened.unknown,
    }


def _stored_bytes(item: Segment, handles: Handles) -> int:
    """The size of a segment's file: less than its end if it is compressed."""
    if encoding_of(item.header) == segment.PLAIN:
        return item.end
    return size_of(handles.files, f"{handles.directory}/{item.name}")


def upkeep_facts(
    life: Lifecycle, snapshots: FileSnapshots, not_compressed: str, writer: SegmentWriter | None
) -> dict[str, Any]:
    """Figures about pruned and erased events, snapshots, and work that has to wait."""
    return {
        "snapshots": len(snapshots.ids()),
        "snapshot_bytes": snapshots.size(),
        "snapshot_orphans": snapshots.orphans(),
        "pruned_streams": len(life.cuts),
        "pruned_events": sum(cut.count for cut in list(life.cuts.values())),
        "erased_events": len(life.erased),
        "not_compressed": not_compressed,
        "not_sealed": writer.why_not_sealed if writer is not None else "",
    }
