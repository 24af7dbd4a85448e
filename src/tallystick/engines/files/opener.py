"""Opening a file log: find it or make it, take the lock, recover, and hand over what the engine works with."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable

import msgspec

from tallystick import errors
from tallystick.engines.files import discovery, mark, recovery, segment
from tallystick.engines.files.index_file import SectionCache
from tallystick.engines.files.mark import Mark, MarkFile
from tallystick.engines.files.segment import Header
from tallystick.engines.files.segments import Handles, Renamed, Segment, SegmentSet
from tallystick.engines.files.writer import following
from tallystick.store.filesystem import FileSystem, Lock, replace_file
from tallystick.store.page import Hole

DIRECTORIES = ("index", "snapshots", "quarantine")
LOOKS_MAX, LOOK_SECONDS = 200, 0.003


class Opened(msgspec.Struct):
    """A log, ready to be used. Without a mark file it is read-only."""

    segments: SegmentSet
    handles: Handles
    cache: SectionCache
    holes: list[Hole]
    unknown: list[str]
    recovered: list[str]
    lock: Lock | None = None
    mark_file: MarkFile | None = None
    superfluous: list[str] = []


def exists(files: FileSystem, directory: str) -> bool:
    """Whether a directory holds a file log, or what is left of one."""
    return any(files.exists(f"{directory}/{name}") for name in (segment.CURRENT, mark.NAME)) or (
        files.exists(directory) and any(segment.SEALED.fullmatch(name) for name in files.list(directory))
    )


def open_for_reading(files: FileSystem, directory: str) -> Opened:
    """Open beside a writer. Changes nothing; sees what is synced.

    A writer may seal a segment while its directory is being looked at: what looks like damage is looked at again, until
    it looks the same twice.
    """
    seen: object = None
    for _ in range(LOOKS_MAX):
        with contextlib.suppress(Renamed, FileNotFoundError):  # sealed or rewritten while it was looked at
            opened, vanished = _look(files, directory)
            now = (files.list(directory), [(hole.first, hole.last) for hole in opened.holes])
            if not vanished and (not opened.holes or now == seen):
                return opened
            seen = now
        time.sleep(LOOK_SECONDS)
    raise errors.ReadFailed(path=f"files:{directory}", reason="its segments keep changing")


def _look(files: FileSystem, directory: str) -> tuple[Opened, bool]:
    handles, cache = Handles(files, directory), SectionCache()
    marked = mark.load(files, directory)
    found = discovery.discover(files, directory, marked, cache=cache, handles=handles)
    if found.vanished and not found.segments:
        return Opened(SegmentSet([]), handles, cache, found.holes, found.unknown, []), True
    discovery.require_segments(found, directory, marked)
    last = found.segments[-1]
    last.end = min(last.end, visible_end(last, marked))
    found.holes += last.index_all(handles.get(last), end=last.end)
    if last.covered_end < last.end:
        found.holes.append(Hole(last.next_position, last.next_position, f"{last.name} is damaged or cut"))
        last.end = last.covered_end
    opened = Opened(SegmentSet(found.segments), handles, cache, found.holes, found.unknown, [])
    opened.superfluous = found.superfluous
    return opened, found.vanished


def visible_end(last: Segment, marked: Mark | None) -> int:
    """How far the newest segment may be shown to readers in other processes."""
    if last.header.ending is not None:
        return last.end
    known = marked.end if marked is not None and marked.segment_id == last.header.segment_id else segment.SIZE
    return max(known, last.base.covered_end if last.base is not None else 0)


def open_for_writing(
    files: FileSystem, directory: str, *, create: bool, profile: str, clock: Callable[[], int]
) -> Opened:
    """Take the lock, recover, and make the end of the log durable. Damage opens it read-only instead."""
    if not exists(files, directory) and not create:
        raise errors.StoreNotFound(url=f"files:{directory}")
    for name in ("", *DIRECTORIES):
        files.make_dir(f"{directory}/{name}" if name else directory)
    lock = files.lock(f"{directory}/lock")
    try:
        if not exists(files, directory):
            _create(files, directory, profile, clock)
        return _recover(files, directory, lock, clock)
    except BaseException:
        lock.release()
        raise


def _create(files: FileSystem, directory: str, profile: str, clock: Callable[[], int]) -> None:
    header = Header(
        store_id=secrets.token_bytes(16),
        segment_id=secrets.token_bytes(16),
        first_position=1,
        created=clock(),
        profile=profile,
    )
    replace_file(files, directory, segment.CURRENT, segment.encode(header))


def _recover(files: FileSystem, directory: str, lock: Lock, clock: Callable[[], int]) -> Opened:
    handles, cache = Handles(files, directory), SectionCache()
    marked = mark.load(files, directory)
    found = discovery.discover(files, directory, marked, cache=cache, handles=handles)
    discovery.require_segments(found, directory, marked)
    opened = Opened(SegmentSet(found.segments), handles, cache, found.holes, found.unknown, [], lock)
    opened.superfluous = found.superfluous
    last = found.segments[-1]
    examined = recovery.examine(last, handles.get(last), marked)
    opened.holes += examined.holes
    last.end = examined.end
    if opened.holes:
        return opened
    indexes = [f"index/{name}" for name in files.list(f"{directory}/index") if name.endswith(".idx.tmp")]
    for name in (*found.temporary, *indexes):
        files.unlink(f"{directory}/{name}")
    _settle(opened, last, examined, marked, clock, replaced=segment.CURRENT in found.superfluous)
    return opened


def _settle(
    opened: Opened,
    last: Segment,
    examined: recovery.Recovery,
    marked: Mark | None,
    clock: Callable[[], int],
    *,
    replaced: bool,
) -> None:
    """Finish what a crash interrupted, now that nothing is damaged.

    `replaced`: there is a current.log, but a later generation of it stands under a dated name.
    """
    files, directory = opened.handles.files, opened.handles.directory
    if last.header.ending is None:
        file = files.open_write(f"{directory}/{last.name}")
        try:
            opened.recovered += recovery.settle(files, directory, last, file, examined, time_ns=clock())
        finally:
            file.close()
    absent = replaced or not files.exists(f"{directory}/{segment.CURRENT}")
    if last.name != segment.CURRENT and absent:  # the crash came between sealing and the new current.log
        begun = following(last, opened.handles, clock=clock)
        replace_file(files, directory, segment.CURRENT, segment.encode(begun.header))
        opened.segments = SegmentSet([*opened.segments.items, begun])
        opened.recovered.append(f"began a new current.log after {last.name}")
        last = begun
    opened.recovered += [_reindex(item, opened) for item in opened.segments.items[:-1] if _needs_index(item)]
    counter = marked.counter + 1 if marked is not None else 0
    start = Mark(last.header.segment_id, last.end, last.next_position, counter)
    opened.mark_file = MarkFile(files, directory, start)


def _needs_index(item: Segment) -> bool:
    return item.base is None or item.base.covered_end != item.end


def _reindex(item: Segment, opened: Opened) -> str:
    item.rebuild(instead_of=item.base)
    item.save_index()
    item.load_index(opened.cache)
    return f"rebuilt the index of {item.name}"
