"""Every single bit of a small log of two segments, of its indexes and of its mark."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing.simulated_disk import SimulatedDisk

CHUNKS = 8


class Sample(msgspec.Struct):
    """A closed log of two segments."""

    image: dict[str, bytes | None]
    events: list[Event]
    files: list[str]


@pytest.fixture(scope="module")
def sample(lab: Any) -> Sample:
    """Four events in two segments, closed."""
    disk = SimulatedDisk()
    with lab.open_store(disk, segment_bytes_max=620) as store:
        for number in range(4):
            store.append("a/b", lab.event(number, size=1))
        events = lab.events_of(store)
    image = disk.image()
    kinds = (".log", ".idx", "/synced")
    files = [path for path, data in image.items() if data and path.endswith(kinds)]
    assert sum(path.endswith(".log") for path in files) == 2
    assert sum(path.endswith(".idx") for path in files) == 2
    return Sample(image, events, files)


def flips(sample: Sample, chunk: int) -> list[tuple[str, int]]:
    """Every CHUNKS-th bit of all files."""
    every = [(path, bit) for path in sample.files for bit in range(8 * len(sample.image[path] or b""))]
    return every[chunk::CHUNKS]


def flipped(sample: Sample, path: str, bit: int) -> SimulatedDisk:
    """The sample with one bit changed."""
    data = bytearray(sample.image[path] or b"")
    data[bit // 8] ^= 1 << bit % 8
    return SimulatedDisk.holding(sample.image | {path: bytes(data)})


def served(store: Store, sample: Sample) -> tuple[dict[int, Event], bool]:
    """The events that any way of reading gives, by position, and whether one of them raised an error."""
    page = store.read(over_holes=True)
    found, refused = {event.position: event for event in page.events}, bool(page.holes)
    ways = [lambda: store.read_stream("a/b"), *(lambda id_=event.id: [store.find(id_)] for event in sample.events)]
    for read in ways:
        try:
            items = [item for item in read() if item is not None]
        except errors.TallyError:
            refused = True
            continue
        assert all(item == sample.events[item.position - 1] for item in items)
        if len(items) < (len(sample.events) if read is ways[0] else 1):
            refused = refused or not verify(store.log).ok
            assert refused, "an event is missing and nothing says so"
    return found, refused


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_flipped_bit_is_served_or_silently_loses_an_event(lab: Any, sample: Sample, chunk: int) -> None:
    """LH-19, settled 15: each flip is reported, or all events are served exactly as they were."""
    for path, bit in flips(sample, chunk):
        disk = flipped(sample, path, bit)
        where = f"bit {bit} of {path}"
        try:
            store = lab.open_store(disk, segment_bytes_max=620)
        except errors.TallyError:
            assert path.endswith(".log"), where  # an index or the mark never keeps a log from being opened
            continue
        with store:
            found, refused = served(store, sample)
            assert all(event == sample.events[position - 1] for position, event in found.items()), where
            if len(found) < len(sample.events):
                assert refused, where
                assert not verify(store.log).ok, where
                assert path.endswith(".log"), where


@pytest.mark.parametrize("part", range(2))
def test_a_flip_in_a_segment_changes_no_segment(lab: Any, sample: Sample, part: int) -> None:
    """Settled 15: opening a damaged log throws nothing away; each segment keeps its bytes."""
    logs = [path for path in sample.files if path.endswith(".log")]
    path = logs[part]
    for bit in range(0, 8 * len(sample.image[path] or b""), 3):
        disk = flipped(sample, path, bit)
        before = {name: disk.image()[name] for name in logs}
        with contextlib.suppress(errors.TallyError):
            lab.open_store(disk, segment_bytes_max=620).close()
        after = {name: data for name, data in disk.image().items() if data and name.endswith(".log")}
        assert set(before.values()) <= set(after.values()), f"bit {bit} of {path}"
