"""Directories as people, backups and other programs leave them."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import errors
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing.builders import text
from tallystick.testing.faults import OPERATIONS, Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk

HOUR_NS = 3_600_000_000_000
Image = dict[str, bytes | None]


class Sample(msgspec.Struct):
    """A closed log of three segments with two events each, and the same log as it was before its last event."""

    image: Image
    older: Image
    events: list[Event]
    sealed: list[str]
    current: str


@pytest.fixture(scope="module")
def sample(lab: Any) -> Sample:
    """A sample."""
    return made(lab)


def made(lab: Any) -> Sample:
    """Six events in three segments."""
    disk = SimulatedDisk()
    older: Image = {}
    with lab.open_store(disk) as store:
        for number in range(6):
            older = disk.image()
            store.append("order/0", lab.event(number, size=1500))
        events = lab.events_of(store)
    image = disk.image()
    logs = sorted(path for path in image if path.endswith(".log"))
    assert len(logs) == 3
    return Sample(image, older, events, logs[:2], logs[2])


def read_all(lab: Any, sample: Sample, image: Image) -> tuple[list[int], list[tuple[int, int]], Image]:
    """Open for writing: the positions served (each as it was), the holes, and the image afterwards."""
    disk = SimulatedDisk.holding(image)
    with lab.open_store(disk) as store:
        page = store.read(over_holes=True)
        assert all(event == sample.events[event.position - 1] for event in page.events)
        holes = [(hole.first, hole.last) for hole in store.holes()]
        if holes:
            assert not verify(store.log).ok
            with pytest.raises(errors.Damaged):
                store.append("order/after", lab.event(9))
            after = {path: data for path, data in disk.image().items() if path != f"{lab.directory}/damage.json"}
        else:
            assert verify(store.log).ok
            after = disk.image()
            store.append("order/after", lab.event(9))
        return [event.position for event in page.events], holes, after


BAD_BYTES: dict[str, Callable[[bytes], bytes | None]] = {
    "zero length": lambda data: b"",
    "4 KiB of zeros": lambda data: bytes(4096),
    "zeros of the same length": lambda data: bytes(len(data)),
    "its header alone": lambda data: data[:132],
    "half of its header": lambda data: data[:66],
    "text": lambda data: b"not a segment\n" * 100,
    "a directory": lambda data: None,
}


@pytest.mark.parametrize("what", BAD_BYTES)
@pytest.mark.parametrize(("number", "hole"), [(0, (1, 2)), (1, (3, 4))], ids=["first", "middle"])
def test_a_sealed_segment_that_is_none_is_a_named_hole(
    lab: Any, sample: Sample, what: str, number: int, hole: tuple[int, int]
) -> None:
    """Settled 15: other bytes in the place of a segment are a hole; the rest is served and nothing is changed."""
    path = sample.sealed[number]
    image = sample.image | {path: BAD_BYTES[what](sample.image[path] or b"")}
    positions, holes, after = read_all(lab, sample, image)
    assert holes == [hole]
    assert positions == [position for position in range(1, 7) if not hole[0] <= position <= hole[1]]
    assert after == image


@pytest.mark.parametrize("what", BAD_BYTES)
def test_a_current_segment_that_is_none_is_a_named_hole(lab: Any, sample: Sample, what: str) -> None:
    """Settled 15: a current.log that lost its bytes is damage, never a new and empty log."""
    image = sample.image | {sample.current: BAD_BYTES[what](sample.image[sample.current] or b"")}
    positions, holes, after = read_all(lab, sample, image)
    assert (positions, holes) == ([1, 2, 3, 4], [(5, 6)])
    assert after == image


@pytest.mark.parametrize(("number", "hole"), [(0, (1, 2)), (1, (3, 4)), (2, (5, 6))], ids=["first", "middle", "last"])
def test_a_deleted_segment_is_a_named_hole(lab: Any, sample: Sample, number: int, hole: tuple[int, int]) -> None:
    """Settled 15: the positions of a segment that is gone are named; both sides are served, and nothing is made up."""
    path = [*sample.sealed, sample.current][number]
    image = {name: data for name, data in sample.image.items() if name != path}
    positions, holes, after = read_all(lab, sample, image)
    assert holes == [hole]
    assert positions == [position for position in range(1, 7) if not hole[0] <= position <= hole[1]]
    assert after == image


def test_segments_with_swapped_names_are_read_in_their_own_order(lab: Any, sample: Sample) -> None:
    """Names do not order a log: segments that swapped theirs give the same events."""
    first, second = sample.sealed
    image = sample.image | {first: sample.image[second], second: sample.image[first]}
    positions, holes, _ = read_all(lab, sample, image)
    assert (positions, holes) == ([1, 2, 3, 4, 5, 6], [])


def test_a_segment_of_another_store_is_not_adopted(lab: Any, sample: Sample) -> None:
    """A segment of another store next to ours is left as it is and named; in the place of ours it is a hole."""
    stranger = made(lab).image[sample.sealed[0]]
    beside = f"{lab.directory}/2020-01-01_001.log"
    disk = SimulatedDisk.holding(sample.image | {beside: stranger})
    assert lab.recovered(disk) == sample.events
    assert disk.image()[beside] == stranger
    with lab.open_store(disk) as store:
        assert "2020-01-01_001.log" in str(store.report().facts)
    image = sample.image | {sample.sealed[1]: stranger}
    positions, holes, after = read_all(lab, sample, image)
    assert (positions, holes, after) == ([1, 2, 5, 6], [(3, 4)], image)


def test_a_copy_of_a_segment_under_another_name_is_not_read_twice(lab: Any, sample: Sample) -> None:
    """Two files with the same positions are refused, or one of them is ignored; no event is served twice."""
    copy = f"{lab.directory}/2020-01-01_001.log"
    disk = SimulatedDisk.holding(sample.image | {copy: sample.image[sample.sealed[0]]})
    with lab.open_store(disk) as store:
        page = store.read(over_holes=True)
        positions = [event.position for event in page.events]
        assert len(positions) == len(set(positions))
        assert positions == [1, 2, 3, 4, 5, 6] or store.holes()
    assert disk.image()[copy] == sample.image[sample.sealed[0]]


def test_an_old_copy_of_the_current_segment_is_a_short_log(lab: Any, sample: Sample) -> None:
    """Settled 15: current.log from a backup ends before the mark: the first missing position is named, no append."""
    image = sample.image | {sample.current: sample.older[sample.current]}
    positions, holes, after = read_all(lab, sample, image)
    assert (positions, holes) == ([1, 2, 3, 4, 5], [(6, 6)])
    assert after == image


def test_a_whole_backup_is_an_older_log(lab: Any, sample: Sample) -> None:
    """A directory restored as a whole is the log of that time; only an external witness could notice."""
    positions, holes, _ = read_all(lab, sample, sample.older)
    assert (positions, holes) == ([1, 2, 3, 4, 5], [])


def test_unknown_files_are_left_alone_and_named(lab: Any, sample: Sample) -> None:
    """Files that are not ours stay as they are, and doctor names them."""
    strangers: Image = {
        f"{lab.directory}/{name}": b"mine" for name in ("notes.txt", "2026-01-01.log", "CURRENT.LOG", "other.tmp")
    }
    disk = SimulatedDisk.holding(sample.image | strangers)
    assert lab.recovered(disk) == sample.events
    with lab.open_store(disk) as store:
        facts = str(store.report().facts)
    for path, data in strangers.items():
        assert disk.image()[path] == data
        assert os.path.basename(path) in facts


@pytest.mark.parametrize("name", ["current.log.tmp", "synced.tmp", "index/current.idx.tmp"])
@pytest.mark.parametrize("data", [b"", b"half of someth", bytes(4096)], ids=["empty", "half", "zeros"])
def test_a_temporary_file_left_by_a_crash_does_no_harm(lab: Any, sample: Sample, name: str, data: bytes) -> None:
    """LH-16: our own temporary files are passed over, removed or reused."""
    disk = SimulatedDisk.holding(sample.image | {f"{lab.directory}/{name}": data})
    assert lab.recovered(disk) == sample.events
    assert lab.recovered(disk) == sample.events


@pytest.mark.parametrize("name", ["synced", "index", "lock", "quarantine", "snapshots"])
def test_what_can_be_made_again_is_made_again(lab: Any, sample: Sample, name: str) -> None:
    """LH-16: without its mark, its indexes or its lock file a log still opens with every event."""
    path = f"{lab.directory}/{name}"
    image = {at: data for at, data in sample.image.items() if at != path and not at.startswith(f"{path}/")}
    assert lab.recovered(SimulatedDisk.holding(image)) == sample.events


@pytest.mark.parametrize("back_ns", [HOUR_NS, 48 * HOUR_NS, -48 * HOUR_NS], ids=["1 h", "2 days", "2 days on"])
def test_a_clock_that_jumps_at_a_rotation_changes_no_order(lab: Any, back_ns: int) -> None:
    """Times never order: segments sealed under an earlier date are read in the order of the log."""
    disk = SimulatedDisk()
    ticks = itertools.count(lab.start_ns, 1_000_000)
    now = {"back": 0}
    store = lab.open_store(disk, clock=lambda: next(ticks) - now["back"])
    for number in range(12):
        store.append("order/0", lab.event(number, size=1500))
        if number == 5:
            now["back"] = back_ns
    store.close()
    assert len([path for path in disk.image() if path.endswith(".log")]) >= 5
    assert [event.data["number"] for event in lab.recovered(disk)] == list(range(12))


def test_a_log_on_a_disk_that_folds_case_keeps_streams_apart(lab: Any) -> None:
    """LH-10: streams that differ only in case stay two streams on a file system that ignores case."""
    disk = SimulatedDisk(folds_case=True)
    with lab.open_store(disk) as store:
        for number in range(6):
            store.append("order/Abc" if number % 2 else "order/aBC", lab.event(number, size=1500))
    with lab.open_store(disk) as store:
        assert [event.seq for event in store.read_stream("order/Abc")] == [1, 2, 3]
        assert [event.seq for event in store.read_stream("order/aBC")] == [1, 2, 3]
        assert verify(store.log).ok
    names = [name for name in disk.image() if disk.image()[name] is not None]
    assert len({name.casefold() for name in names}) == len(names)


def test_a_read_only_directory_is_read_and_not_written(lab: Any, sample: Sample) -> None:
    """LH-16: where nothing can be written, opening for writing is a typed error and reading works."""
    for operation in OPERATIONS:
        if operation in ("open", "read", "list"):
            continue
        disk = SimulatedDisk.holding(sample.image)
        files = FaultyFileSystem(disk, Fault(operation=operation, error=errno.EROFS, persistent=True))
        with lab.open_store(files, readonly=True) as store:
            assert lab.events_of(store) == sample.events
            with pytest.raises(errors.ReadOnly):
                store.append("order/0", lab.event(9))
        assert not files.fired, f"a reader did {operation}"
        assert disk.image() == sample.image
    files = FaultyFileSystem(disk, Fault(operation="lock", error=errno.EROFS, persistent=True))
    with pytest.raises(errors.TallyError):
        lab.open_store(files)
    assert disk.image() == sample.image


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_directory_without_write_permission(tmp_path: Path) -> None:
    """LH-16: the same on a real disk."""
    with tallystick.open(f"files:{tmp_path}/s") as store:
        store.append("a/b", tallystick.NewEvent("made", {}))
    for path in (tmp_path / "s", *(tmp_path / "s").rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        with pytest.raises(errors.TallyError):
            tallystick.open(f"files:{tmp_path}/s")
        with tallystick.open(f"files:{tmp_path}/s", readonly=True) as store:
            assert store.head() == 1
    finally:
        for path in (tmp_path / "s", *(tmp_path / "s").rglob("*")):
            path.chmod(0o700)


def put_link(path: Path) -> None:
    """The segment moved away and linked to."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def put_fifo(path: Path) -> None:
    """A FIFO whose other end is not open."""
    path.unlink()
    os.mkfifo(path)


def put_dir(path: Path) -> None:
    """A directory."""
    path.unlink()
    path.mkdir()


def put_device_link(path: Path) -> None:
    """A link to a device that never ends."""
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
@pytest.mark.parametrize("put", [put_link, put_fifo, put_dir, put_device_link], ids=lambda put: put.__name__)
@pytest.mark.parametrize("which", ["sealed", "current"])
def test_what_is_no_regular_file_is_never_a_segment(tmp_path: Path, put: Callable[[Path], None], which: str) -> None:
    """LH-10: a link, FIFO or directory in the place of a segment is a hole; it is neither followed nor waited for."""
    with tallystick.open(f"files:{tmp_path}/s", segment_bytes_max=2000) as store:
        for number in range(4):
            store.append("a/b", tallystick.NewEvent("made", {"number": number, "text": text(700, seed=number)}))
    logs = sorted((tmp_path / "s").glob("*.log"))
    assert len(logs) == 2
    put(logs[0] if which == "sealed" else logs[1])
    kept = [3, 4] if which == "sealed" else [1, 2]
    with tallystick.open(f"files:{tmp_path}/s", segment_bytes_max=2000) as store:
        assert [event.position for event in store.read(over_holes=True).events] == kept
        assert [(hole.first, hole.last) for hole in store.holes()] == [(1, 2) if which == "sealed" else (3, 4)]
        with pytest.raises(errors.Damaged):
            store.append("a/b", tallystick.NewEvent("made", {}))
