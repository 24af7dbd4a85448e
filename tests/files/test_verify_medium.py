"""Verification reads the disk, each frame of it, under a log that is open and has read everything before."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.files import frame as frames
from tallystick.engines.files import index_file, index_writer, segment
from tallystick.engines.files.index import GrowingIndex
from tallystick.engines.files.scan import Scanner
from tallystick.store.verify import verify
from tallystick.testing.builders import events

pytestmark = pytest.mark.security

EVENTS = 12


@pytest.fixture(params=["writer", "reader", "compressed"])
def busy(opened: Any, request: pytest.FixtureRequest) -> Any:
    """A handle that has read everything, through every way of reading."""
    store = writer = opened(segment_bytes_max=1500)
    for number in range(EVENTS):
        writer.append("order/1", events(1, first=number))
    if request.param == "compressed":
        writer.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
    if request.param == "reader":
        store = opened(readonly=True)
    for item in store.events():
        assert store.find(item.id) == item
    assert len(store.read_stream("order/1")) == EVENTS
    assert verify(store.log).ok
    return store


def places(path: Path) -> list[int]:
    """Some bytes of a file: of its beginning, its middle and its end."""
    size = path.stat().st_size
    return [9, size // 3, size // 2, size - 3]


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "as another file"])
def test_a_byte_that_changes_under_an_open_log_is_found(busy: Any, directory: Path, in_place: bool) -> None:
    """SAFE-03: no frame, header, index section or unpacked member that is in memory answers for the disk."""
    for path in sorted(directory.glob("*.log")):
        whole = path.read_bytes()
        for at in places(path):
            changed = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
            put(path, changed, in_place)
            assert not verify(busy.log).ok, f"{path.name}, byte {at} of {len(whole)}"
            put(path, whole, in_place)
            (directory / "damage.json").unlink()
            busy.log._view.holes.clear()
    assert verify(busy.log).ok


def put(path: Path, data: bytes, in_place: bool) -> None:
    """Write a file in place, or put another one in its place."""
    if in_place:
        path.write_bytes(data)
    else:
        path.with_name("other").write_bytes(data)
        os.replace(path.with_name("other"), path)


def test_a_segment_that_is_removed_under_an_open_log_is_found(busy: Any, directory: Path, tmp_path: Path) -> None:
    """SAFE-03: that it is still open in this process helps no other process."""
    path = min(directory.glob("2*.log"))
    path.rename(tmp_path / path.name)
    with contextlib.suppress(errors.ReadFailed):
        assert not verify(busy.log).ok
    assert busy.log.damage.known()


def lease_frames(path: Path) -> list[tuple[int, int]]:
    """Where the frames without events stand in a segment."""
    file = Disk().open_read(str(path))
    header = segment.decode(file.read_at(0, segment.SIZE), path=str(path))
    scanner = Scanner(file, header.identity, offset=segment.SIZE, end=file.size(), position=None)
    return [(frame.offset, frame.end) for frame, data in scanner if not frames.decode_body(frame, data).events]


@pytest.mark.parametrize("sealed", [False, True], ids=["current", "sealed"])
def test_a_flipped_bit_in_a_frame_without_events_is_found(
    opened: Any, directory: Path, sealed: bool, flip: Any
) -> None:
    """SAFE-03: leases stand in frames of their own, which no reading of events passes."""
    store = opened(segment_bytes_max=1000 if sealed else 1_000_000)
    for number in range(4):
        store.append("order/1", events(1))
        store.acquire_lease(f"run/{number}")
    store.append("order/1", events(2))
    assert verify(store.log).ok
    path = min(directory.glob("2*.log")) if sealed else directory / "current.log"
    found = lease_frames(path)
    assert found
    for begin, end in found:
        for at in (begin, begin + 30, end - 1):
            flip(path, at)
            assert not verify(store.log).ok, at
            flip(path, at)
            (directory / "damage.json").unlink()
            store.log._view.holes.clear()
    assert verify(store.log).ok


def test_segments_without_events_are_ordered_by_what_follows_what(opened: Any, directory: Path) -> None:
    """LH-06: segments with only leases begin at the same position; whatever their names, the log is whole."""
    with opened(segment_bytes_max=256) as store:
        store.append("order/1", events(1))
        for number in range(6):
            store.acquire_lease(f"run/{number}")
        store.append("order/1", events(1))
    names = sorted(directory.glob("2*.log"))
    assert len(names) > 5
    for path in names:
        path.rename(path.with_suffix(".moved"))
    for path, name in zip(names, [*names[1:3], names[0], *reversed(names[3:])], strict=True):
        path.with_suffix(".moved").rename(name)
    for readonly in (True, False):
        with opened(readonly=readonly) as store:
            assert store.holes() == []
            assert verify(store.log).problems == []
    with opened() as store:
        assert store.append("order/1", events(1)).position == 3


def test_what_is_known_as_a_hole_is_reported(opened: Any, directory: Path, flip: Any) -> None:
    """SAFE-03: a damaged range that opening found is among the findings, though reading passes over it."""
    with opened() as store:
        store.append("order/1", events(1))
        store.acquire_lease("run/1")
        store.append("order/1", events(1))
    (directory / "index" / "current.idx").unlink()
    flip(directory / "current.log", lease_frames(directory / "current.log")[0][0] + 30)
    with tallystick.open(f"files:{directory}") as store:
        assert store.holes()
        assert "hole" in {problem.what for problem in verify(store.log).problems}


def wrong_offset(grown: GrowingIndex) -> None:
    """Every id leads to the first frame."""
    grown.id_offsets[:] = type(grown.id_offsets)("I", [grown.id_offsets[0]] * len(grown.id_offsets))


def wrong_head(grown: GrowingIndex) -> None:
    """A stream that ends later than it does."""
    name, entry = next(iter(grown.streams.items()))
    entry.head = type(entry.head)(entry.head.seq + 1, entry.head.link, entry.head.org)
    grown.streams[name] = entry


FORGERIES: dict[str, Callable[[GrowingIndex], object]] = {
    "the offset of an id": wrong_offset,
    "an id that is left out": lambda grown: (grown.ids.__delitem__(slice(0, 16)), grown.id_offsets.pop(0)),
    "the end of a stream": wrong_head,
    "a stream that is left out": lambda grown: grown.streams.pop("order/1"),
    "a stream that is not there": lambda grown: grown.streams.update({"order/9": grown.streams["order/1"]}),
    "a frame that a stream is in": lambda grown: grown.streams["order/1"].postings.__delitem__(slice(0, 12)),
    "a lease that is left out": lambda grown: grown.leases.clear(),
    "the sequence of a source": lambda grown: grown.sources.update(s=99),
    "where frames are": lambda grown: grown.positions.__setitem__(0, 2),
    "an event that is called gone": lambda grown: grown.gone.add(b"g" * 16),
    "a command that never was": lambda grown: grown.made.update({b"c" * 16: (132, 1)}),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_index_with_right_hashes_is_found(
    opened: Any, directory: Path, forge: Callable[[GrowingIndex], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAFE-04: an index is compared with its segment, section by section, and not only with its own hashes."""
    encode = index_writer.encode

    def forged(base: Any, grown: GrowingIndex, **options: Any) -> bytes:
        forge(grown)
        return encode(base, grown, **options)

    with opened() as store:
        for number in range(4):
            store.append("order/1", events(1, first=number))
        store.acquire_lease("run/1")
        assert verify(store.log).ok
        monkeypatch.setattr(index_writer, "encode", forged)
    monkeypatch.undo()
    with tallystick.open(f"files:{directory}") as store:
        found = verify(store.log)
        assert "index" in {problem.what for problem in found.problems}, found.problems


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"\xff" * 400, b"\x80", b"\x01\x02\x03"], ids=["empty", "a byte", "many", "map", "few"]
)
@pytest.mark.parametrize("section", ["positions", "offsets", "entry_ends", "entries", "rest", "life"])
def test_what_cannot_be_decoded_is_found(opened: Any, directory: Path, section: str, content: bytes) -> None:
    """SAFE-04: a forged section is named by verification, or its index rebuilt; no read fails inside."""
    with opened() as store:
        for number in range(4):
            store.append("order/1", events(1, first=number))
    _forge(directory / "index" / "current.idx", section, content)
    with tallystick.open(f"files:{directory}", readonly=True) as store:
        found = verify(store.log)
        rebuilt = store.report().facts["indexes_rebuilt"]
        assert "index" in {problem.what for problem in found.problems} or rebuilt, found.problems
    with tallystick.open(f"files:{directory}", readonly=True) as store:
        for read in (store.streams, lambda: list(store.stream("order/1")), lambda: list(store.events())):
            with suppress(errors.Damaged):
                read()


def _forge(file: Path, section: str, content: bytes) -> None:
    """Put other bytes in place of a section, under hashes that fit."""
    data, fields, names = file.read_bytes(), index_file.FIELDS.size, index_file.NAMES
    at, sections = index_file.HEADER_SIZE, {}
    for number, name in enumerate(names):
        length, _ = index_file.SECTION.unpack_from(data, fields + number * index_file.SECTION.size)
        sections[name], at = data[at : at + length], at + length
    sections[section] = content
    header = data[:fields] + b"".join(
        index_file.SECTION.pack(len(body), hashlib.sha256(body).digest()) for body in sections.values()
    )
    file.write_bytes(header + hashlib.sha256(header).digest() + b"".join(sections.values()))
