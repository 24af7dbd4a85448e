"""Every single bit of a segment that was rewritten, plain and compressed, and every third of its index."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.engines.files import segment
from tallystick.event.model import Event
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.simulated_disk import SimulatedDisk

CHUNKS = 5  # a fifth of the bits is flipped in `make test-all`: another one of each byte
SEGMENT_BYTES_MAX = 1100


class Sample(msgspec.Struct):
    """A closed log whose first segment was rewritten: its image, the path of that segment, and the events."""

    image: dict[str, bytes | None]
    path: str
    events: list[Event]


@pytest.fixture(scope="module", params=["plain", "compressed"])
def sample(request: pytest.FixtureRequest, lab: Any) -> Sample:
    """Pruned and erased, so that a frame is joined, one is shortened and one has lost a payload."""
    disk = SimulatedDisk()
    with lab.open_store(disk, segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        for number in range(8):
            store.append(f"a/{number % 2}", lab.event(number, size=90))
        upkeep.prune(store, "a/0", 2)
        upkeep.erase(store, "a/1", 2)
        before = 1 << 62 if request.param == "compressed" else None
        assert store.log.reclaim(compress_before=before, progress=lambda done: None).done
        events = list(store.events(over_pruned=True))
    image = disk.image()
    paths = [path for path, data in sorted(image.items()) if data and data.startswith(segment.MAGIC)]
    header = segment.decode(image[paths[0]] or b"", path="")
    assert header.ending is not None
    assert header.ending.encoding == (segment.GZIP if request.param == "compressed" else segment.PLAIN)
    return Sample(image, paths[0], events)


def served(store: Store, sample: Sample) -> tuple[dict[int, Event], bool]:
    """The events that any way of reading gives, by position, and whether one of them refused something."""
    page = store.read(over_holes=True, over_pruned=True)
    found, refused = {event.position: event for event in page.events}, bool(page.holes)
    for event in sample.events:
        try:
            by_id = store.find(event.id)
            assert by_id in (None, event)
            (by_seq,) = store.read_stream(event.stream, after=event.seq - 1, limit=1) or [None]
            assert by_seq in (None, event)
            refused = refused or ((by_id is None or by_seq is None) and not verify(store.log).ok)
            assert refused or (by_id, by_seq) == (event, event), "an event is missing and nothing says so"
        except errors.TallyError:
            refused = True
    return found, refused


@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(1, CHUNKS))])
def test_no_flipped_bit_is_served_or_silently_loses_an_event(lab: Any, sample: Sample, chunk: int) -> None:
    """LH-09, LH-19, settled 15: each flip is reported, or changes nothing of what is served and verified."""
    wanted = {event.position: event for event in sample.events}
    files = [sample.path, sample.path.replace(f"{lab.directory}/", f"{lab.directory}/index/").replace(".log", ".idx")]
    for path in files:
        data = sample.image[path]
        assert data is not None
        for bit in range(chunk, 8 * len(data), CHUNKS if path == sample.path else 3 * CHUNKS):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            disk = SimulatedDisk.holding(sample.image | {path: bytes(flipped)})
            with lab.open_store(disk, readonly=True) as store:
                found, refused = served(store, sample)
                where = f"bit {bit} of {path}"
                assert all(wanted[position] == event for position, event in found.items()), where
                if found != wanted:
                    assert refused, where
                    assert not verify(store.log).ok, where
                    assert path == sample.path, where


def test_a_damaged_table_costs_nothing(lab: Any, sample: Sample) -> None:
    """LH-09: the table of members is found again by walking over them."""
    data = bytearray(sample.image[sample.path] or b"")
    data[-1] ^= 1
    disk = SimulatedDisk.holding(sample.image | {sample.path: bytes(data)})
    with lab.open_store(disk, readonly=True) as store:
        if segment.decode(bytes(data), path="").ending.encoding == segment.GZIP:  # type: ignore[union-attr]
            assert list(store.events(over_pruned=True)) == sample.events
        else:
            assert store.read(over_holes=True, over_pruned=True).holes
