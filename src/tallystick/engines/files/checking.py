"""What `verify` and `doctor` look at in a file log beyond its events: frames, segment ends, indexes, the mark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tallystick.engines.files import frame as frames
from tallystick.engines.files import index_file, segment, side
from tallystick.engines.files.index_file import SealedIndex
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.engines.files.rewriting import encoding_of
from tallystick.engines.files.scan import Scanner
from tallystick.engines.files.segments import Handles, Segment, SegmentSet
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.snapshots import FileSnapshots
from tallystick.store.events import Problem


def problems(segments: SegmentSet, handles: Handles, progress: Callable[[int], None]) -> Iterator[Problem]:
    """Compare every segment with its index, frame by frame. Damaged frames are found by reading, not here."""
    done = 0
    for item in segments:
        try:
            yield from _segment_problems(item, handles)
        except index_file.BadIndex as problem:
            yield Problem("index", f"index/{item.index_name}: {problem}; it is rebuilt when needed")
        done = item.next_position - 1
        progress(done)
    yield from _repeated_ids(segments)


def _repeated_ids(segments: SegmentSet) -> Iterator[Problem]:
    """Ids that stand in two segments. Rising ids make ranges that hardly overlap, so few pairs are compared."""
    ranges = [(item, bounds) for item in segments if (bounds := item.id_bounds()) is not None]
    ranges.sort(key=lambda found: found[1])
    for index, (item, (_, last)) in enumerate(ranges):
        for other, (first, _) in ranges[index + 1 :]:
            if first > last:
                break
            for id_ in sorted(set(item.ids()) & set(other.ids())):
                yield Problem("id", f"the id {id_.hex()} stands in {item.name} and in {other.name}")


def _segment_problems(item: Segment, handles: Handles) -> Iterator[Problem]:
    if item.base is None:
        return
    scanner = Scanner(
        handles.get(item),
        item.header.identity,
        offset=item.header.size,
        end=min(item.end, item.base.covered_end),
        position=item.header.first_position,
    )
    count, life = 0, Lifecycle()
    for frame, data in scanner:
        body = frames.decode_body(data)
        count += len(body.events)
        records = side.decode(body.side)
        life.take(records)
        if not _finds(item.base, records):
            yield Problem(
                "index", f"index/{item.index_name} does not find a command or what is gone", frame.first_position
            )
        for event in body.events:
            if item.base.find(event.id) != frame.offset:
                reason = f"index/{item.index_name} does not find the event by its id"
                yield Problem("index", reason, event.position, event.stream, event.seq)
    ids = list(item.ids())
    if len(set(ids)) != len(ids):
        yield Problem("id", f"an id stands twice in {item.name}")
    if scanner.clean and count * 16 != len(item.base.section("ids")):
        yield Problem("index", f"index/{item.index_name} lists events that are not in the segment")
    if scanner.clean and life.encode() != item.base.lifecycle().encode():
        yield Problem("index", f"index/{item.index_name} and the segment differ in what was pruned, erased or kept")


def _finds(base: SealedIndex, records: SideRecords) -> bool:
    """Whether an index knows the commands of a frame, and the events that were left out of it."""
    return all(base.command(side.digest(command.key)) for command in records.commands) and all(
        map(base.is_gone, records.gone)
    )


def facts(segments: SegmentSet, handles: Handles, *, writing: bool, unknown: list[str]) -> dict[str, Any]:
    """Figures for the operator."""
    last = segments.last
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
        "quarantined": handles.files.list(f"{handles.directory}/quarantine"),
        "not_ours": unknown,
    }


def _stored_bytes(item: Segment, handles: Handles) -> int:
    """How much room a segment takes, which is less than where it ends if it is compressed."""
    if encoding_of(item.header) == segment.PLAIN:
        return item.end
    file = handles.files.open_read(f"{handles.directory}/{item.name}")
    try:
        return file.size()
    finally:
        file.close()


def upkeep_facts(life: Lifecycle, snapshots: FileSnapshots) -> dict[str, Any]:
    """Figures on what was pruned, erased and snapshotted."""
    return {
        "snapshots": len(snapshots.ids()),
        "snapshot_bytes": snapshots.size(),
        "snapshot_orphans": snapshots.orphans(),
        "pruned_streams": len(life.cuts),
        "pruned_events": sum(cut.count for cut in list(life.cuts.values())),
        "erased_events": len(life.erased),
    }
