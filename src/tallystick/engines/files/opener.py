"""Opening a file log: find or create it, take the lock, recover, and return what the engine works with."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable

import msgspec

from tallystick import errors
from tallystick.engines import damage_file
from tallystick.engines.files import discovery, joined_segments, known_positions, mark, recovery, segment
from tallystick.engines.files.handles import Handles, Renamed
from tallystick.engines.files.mark import SegmentMark, SegmentMarkFile
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Segment, Segments, following
from tallystick.store.filesystem import FileSystem, Lock, replace_file
from tallystick.store.page import Hole

DIRECTORIES = ("index", "snapshots", "quarantine")
LEFT = (known_positions.BESIDE, damage_file.NAME)  # files that exist only next to a log
LOOKS_MAX, LOOK_SECONDS = 200, 0.003
NO_MARK = "the synced mark is missing, damaged or of another segment: read to the last whole frame, as recovery would"


class OpenedLog(msgspec.Struct):
    """A log, ready to be used. Without a mark file it is read-only."""

    segments: Segments
    handles: Handles
    holes: list[Hole]
    unknown: list[str]
    recovered: list[str] = []
    lock: Lock | None = None
    mark_file: SegmentMarkFile | None = None
    superfluous: list[str] = []
    absorbed: list[str] = []  # files of segments that were joined to others, still to be removed
    is_open_ended: bool = False


def exists(files: FileSystem, directory: str) -> bool:
    """Whether a directory holds a file log or remains of one. A store is created only where nothing remains."""
    if any(files.exists(f"{directory}/{name}") for name in (segment.CURRENT, mark.NAME)):
        return True
    return files.exists(directory) and (
        any(segment.SEALED.fullmatch(name) or name in LEFT for name in files.list(directory))
        or any(files.exists(f"{directory}/{name}") and files.list(f"{directory}/{name}") for name in DIRECTORIES)
    )


def open_for_reading(files: FileSystem, directory: str) -> OpenedLog:
    """Open for reading while another process may write. Changes nothing, and sees what is synced.

    A writer may seal a segment while its directory is being read. So apparent damage is looked at again, until it looks
    the same twice.
    """
    seen: object = None
    for _ in range(LOOKS_MAX):
        with contextlib.suppress(Renamed, FileNotFoundError):  # sealed or rewritten while it was looked at
            opened, vanished = _open_once(files, directory)
            now = (files.list(directory), [(hole.first, hole.last) for hole in opened.holes])
            if not vanished and (not opened.holes or now == seen):
                return opened
            seen = now
        time.sleep(LOOK_SECONDS)
    raise errors.ReadFailed(path=f"files:{directory}", reason="its segments keep changing")


def _open_once(files: FileSystem, directory: str) -> tuple[OpenedLog, bool]:
    """The log as it is now, and whether it changed while it was read."""
    handles = Handles(files, directory)
    known = known_positions.gather(files, directory)  # before the mark, so that it cannot be ahead of it
    whole, marked = mark.load_whole(files, directory), mark.load(files, directory)
    found = discovery.discover(handles, marked)
    if found.vanished and not found.segments:
        return _opened(found, handles), True
    discovery.require_segments(found, directory, marked, known)
    for item in found.segments[:-1]:
        if item.base is not None and item.base.covered_end < item.end:  # it dates from when this segment was written to
            item.rebuild(instead_of=item.base)
    last = found.segments[-1]
    opened = _opened(found, handles)
    if last.header.ending is None and (whole is None or whole.segment_id != last.header.segment_id):
        if mark.load_whole(files, directory) != whole:  # a writer was active meanwhile, so the mark was old
            return opened, True
        _end_without_mark(opened, last, marked)
    else:
        _end_at_mark(opened, last, whole)
    opened.holes = known_positions.with_lost_end(opened.holes, known, last)
    return opened, found.vanished


def _opened(found: discovery.Discovery, handles: Handles, lock: Lock | None = None) -> OpenedLog:
    return OpenedLog(
        segments=tuple(found.segments),
        handles=handles,
        holes=found.holes,
        unknown=found.unknown,
        lock=lock,
        superfluous=found.superfluous,
        is_open_ended=found.is_open_ended,
    )


def _end_at_mark(opened: OpenedLog, last: Segment, marked: SegmentMark | None) -> None:
    """Show the newest segment as far as it is known to be synced."""
    if last.header.ending is None:
        known = marked.end if marked is not None else segment.SIZE
        last.end = min(last.end, max(known, last.base.covered_end if last.base is not None else 0))
    opened.holes += last.index_all(opened.handles.get(last), end=last.end)
    if last.covered_end < last.end:
        opened.holes.append(Hole(last.next_position, last.next_position, f"{last.name} is damaged or cut"))
        last.end = last.covered_end


def _end_without_mark(opened: OpenedLog, last: Segment, marked: SegmentMark | None) -> None:
    """Show the newest segment up to its last whole frame, and sync it: without a mark, a crash could take it back."""
    file = opened.handles.get(last)
    examined = recovery.examine(last, file, marked)
    opened.holes += examined.holes
    last.end = examined.end
    if examined.end > segment.SIZE:  # a segment that has just begun has no mark yet
        file.sync()
        opened.recovered.append(NO_MARK)


def open_for_writing(files: FileSystem, directory: str, *, profile: str, clock: Callable[[], int]) -> OpenedLog:
    """Take the lock, recover, and make the end of the log durable. A damaged log is opened read-only."""
    for name in DIRECTORIES:
        files.make_dir(f"{directory}/{name}")
    lock = files.lock(f"{directory}/lock")
    try:
        _require_one_name(files, directory)
        if not exists(files, directory):
            _create(files, directory, profile, clock)
        return _recover(files, directory, lock, clock)
    except BaseException:
        lock.release()
        raise


def _require_one_name(files: FileSystem, directory: str) -> None:
    """Refuse to write to a file that another log shares, such as a copy by hard links, which has its own lock."""
    for name in (segment.CURRENT, mark.NAME, known_positions.BESIDE):
        if files.has_other_names(f"{directory}/{name}"):
            reason = f"{name} has another name (a hard link, or a mount of only this file), and would change there too"
            advice = f"copy it: cp {name} {name}.new && mv {name}.new {name}"
            raise errors.UnknownUrl(url=f"files:{directory}", reason=f"{reason}; {advice}")


def _create(files: FileSystem, directory: str, profile: str, clock: Callable[[], int]) -> None:
    header = Header(
        store_id=secrets.token_bytes(16),
        segment_id=secrets.token_bytes(16),
        first_position=1,
        created=clock(),
        profile=profile,
    )
    replace_file(files, directory, segment.CURRENT, segment.encode(header))


def _recover(files: FileSystem, directory: str, lock: Lock, clock: Callable[[], int]) -> OpenedLog:
    handles = Handles(files, directory)
    known = known_positions.gather(files, directory)
    marked = mark.load(files, directory)
    found = discovery.discover(handles, marked)
    discovery.require_segments(found, directory, marked, known)
    opened = _opened(found, handles, lock)
    last = found.segments[-1]
    examined = recovery.examine(last, handles.get(last), marked)
    last.end = examined.end
    opened.holes += examined.holes
    opened.holes = known_positions.with_lost_end(opened.holes, known, last)
    if opened.holes:
        return opened
    derived = [f"index/{name}" for name in files.list(f"{directory}/index") if name.endswith((".idx.tmp", ".tags.tmp"))]
    for name in (*found.temporary, *derived):
        files.unlink(f"{directory}/{name}")
    if found.absorbed:
        opened.absorbed = joined_segments.remove(handles, found.absorbed)
    _finish(opened, last, examined, marked, clock, replaced=segment.CURRENT in found.superfluous)
    return opened


def _finish(
    opened: OpenedLog,
    last: Segment,
    examined: recovery.Recovery,
    marked: SegmentMark | None,
    clock: Callable[[], int],
    *,
    replaced: bool,
) -> None:
    """Finish what a crash interrupted, now that nothing is damaged.

    `replaced`: there is a current.log, but a later generation of it has a dated name.
    """
    files, directory = opened.handles.files, opened.handles.directory
    if last.header.ending is None:
        opened.recovered += recovery.finish(opened.handles, last, examined, clock=clock)
    if last.name != segment.CURRENT and (replaced or not files.exists(f"{directory}/{segment.CURRENT}")):
        # the crash came between sealing and the new current.log
        begun = following(last, opened.handles, clock=clock)
        replace_file(files, directory, segment.CURRENT, segment.encode(begun.header))
        opened.segments = (*opened.segments, begun)
        opened.recovered.append(f"began a new current.log after {last.name}")
        last = begun
    for item in opened.segments[:-1]:
        if _needs_index(item):
            opened.recovered += _reindexed(item)
    counter = marked.counter + 1 if marked is not None else 0
    start = SegmentMark(last.header.segment_id, last.end, last.next_position, counter)
    opened.mark_file = SegmentMarkFile(files, directory, start)


def _needs_index(item: Segment) -> bool:
    return item.base is None or item.base.covered_end != item.end


def _reindexed(item: Segment) -> list[str]:
    item.rebuild(instead_of=item.base)
    if item.gaps:
        return []
    item.save_index()
    item.load_index()
    item.tags.load()
    return [f"rebuilt the index of {item.name}"]
