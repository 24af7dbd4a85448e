"""Sealing, compressing and rewriting segments where an open file cannot be renamed, replaced or removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors
from tallystick.engines.files import writer
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events, text
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract.other_process import OtherProcess
from tallystick.testing.simulated_disk import SimulatedDisk

SMALL = 4096
SECOND_NS = 1_000_000_000


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Open the log of this test; all are closed at the end."""
    stores: list[Store] = []

    def open_(**options: Any) -> Store:
        stores.append(tallystick.open(f"files:{tmp_path}/log", **options))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def large(number: int) -> tallystick.NewEvent:
    """An event of which two do not fit into a small segment."""
    return tallystick.NewEvent("thing.happened", {"n": number, "text": text(3000)})


def sealed(store: Store) -> list[str]:
    """The dated segments."""
    return sorted(
        name
        for name in os.listdir(store.log.url.removeprefix("files:"))
        if name.endswith(".log") and name != "current.log"
    )


def test_segments_are_sealed_and_compressed(opened: Any) -> None:
    """LH-06, LH-09, LH-10: the writer renames nothing that it has open itself."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1)
    for number in range(6):
        store.append("order/1", large(number))
    assert len(sealed(store)) == 5
    store.log._compressor.wait()
    assert store.report().facts["compressed_segments"] == 5
    assert store.report().facts["not_compressed"] == ""
    before = list(store.events())
    assert [item.data["n"] for item in before] == list(range(6))
    assert verify(store.log).ok
    store.close()
    again = opened()
    assert list(again.events()) == before
    assert again.report().problems == ()


def test_a_reader_in_another_process_follows_through_rotations(opened: Any) -> None:
    """LH-10, EVT-06: it has a segment open only while it reads from it, so the writer can rename it."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1)
    store.append("order/1", large(0))
    with OtherProcess("follow", store.log.url, 8) as other:
        assert other.said == "ready"
        for number in range(1, 8):
            store.append("order/1", large(number))
        assert other.answer() == list(range(8))
    assert len(sealed(store)) >= 6


def test_a_segment_that_somebody_has_open_is_sealed_later(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-10, LH-16: appends continue in it, the report says why it is not sealed, and the attempt leaves nothing."""
    clock = ManualClock()
    store = opened(segment_bytes_max=SMALL, clock=clock)
    directory = Path(store.log.url.removeprefix("files:"))
    store.append("order/1", large(0))
    with (directory / "current.log").open("rb"):
        for number in range(1, 4):
            store.append("order/1", large(number))
            clock.now += SECOND_NS
        assert sealed(store) == []
        assert store.report().facts["not_sealed"] == writer.IN_USE
        assert [name for name in os.listdir(directory / "index") if name[:2] == "20"] == []
        monkeypatch.setattr(writer, "SEGMENT_BYTES_LIMIT", 8000)
        with pytest.raises(errors.StoreFailed, match="close what reads it"):
            store.append("order/1", large(9))
        assert store.head() == 4
    clock.now += SECOND_NS
    store.append("order/1", large(4))
    assert len(sealed(store)) == 1
    assert store.report().facts["not_sealed"] == ""
    assert [item.data["n"] for item in store.events()] == list(range(5))
    assert verify(store.log).ok


def test_it_is_not_tried_at_every_append(opened: Any) -> None:
    """LH-10: an attempt writes an index, so there is one a second."""
    clock = ManualClock()
    store = opened(segment_bytes_max=SMALL, clock=clock)
    store.append("order/1", large(0))
    asked: list[int] = []
    seal = store.log._writer.seal
    store.log._writer.seal = lambda: asked.append(clock.now) or seal()
    with Path(store.log.url.removeprefix("files:"), "current.log").open("rb"):
        store.append("order/1", [large(1)])
        store.append("order/1", [large(2)])
        assert len(asked) == 1
        clock.now += SECOND_NS
        store.append("order/1", [large(3)])
        assert len(asked) == 2


def test_an_erased_payload_in_a_segment_that_is_in_use_goes_later(opened: Any) -> None:
    """LH-10, EVT-12: it is erased at once, the report says that its bytes are not yet gone, and then they are."""
    store = opened()
    path = Path(store.log.url.removeprefix("files:"), "current.log")
    store.append("order/1", [event(1), tallystick.NewEvent("thing.happened", {"note": "precious"})])
    with path.open("rb"):
        upkeep.erase(store, "order/1", 2)
        assert list(store.stream("order/1"))[1].payload is None
        (problem,) = store.report().problems
        assert "still on disk" in problem.reason
        assert b"precious" in path.read_bytes()
    store.log.reclaim(compress_before=None, progress=lambda position: None)
    assert store.report().problems == ()
    for left in path.parent.rglob("*.log"):
        assert b"precious" not in left.read_bytes()


def test_a_segment_that_a_reader_has_open_keeps_its_generation_until_it_is_done(opened: Any) -> None:
    """LH-10: our own files are closed first; a file open elsewhere keeps the old generation, and that is reported."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40)
    for _ in range(3):
        store.append("order/0", events(4))
        store.append("order/1", large(0))
    upkeep.prune(store, "order/0", 4)
    before = list(store.events(over_pruned=True))
    name = sealed(store)[0]
    with Path(store.log.url.removeprefix("files:"), name).open("rb"):
        words = store.log.reclaim(compress_before=None, progress=lambda position: None).done
        assert [word for word in words if "later" in word] == [
            f"{name} is held open by a reader; it is rewritten without what was pruned later"
        ]
    (word,) = store.log.reclaim(compress_before=None, progress=lambda position: None).done
    assert name in word
    assert "later" not in word
    assert list(store.events(over_pruned=True)) == before
    assert verify(store.log).ok


def test_a_joined_segment_that_a_reader_has_open_is_removed_later(opened: Any) -> None:
    """LH-09, LH-10: it is no longer part of the log for any handle; its file is removed when possible."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40)
    for number in range(3):
        store.append("order/1", large(number))
    upkeep.prune(store, "order/1", 3)
    store.append("order/1", large(3))
    before = list(store.events(over_pruned=True))
    directory = Path(store.log.url.removeprefix("files:"))
    name = sealed(store)[0]
    with (directory / name).open("rb"):
        words = store.log.reclaim(compress_before=None, progress=lambda position: None).done
        assert f"{name} is held open by a reader; it is removed later" in words
        assert (directory / name).exists()
        with tallystick.open(store.log.url, readonly=True) as reader:
            assert list(reader.events(over_pruned=True)) == before
            assert reader.report().problems == ()
        assert verify(store.log).ok
        store.close()
        store = opened()  # it cannot be removed here either
        assert list(store.events(over_pruned=True)) == before
    (word,) = store.log.reclaim(compress_before=None, progress=lambda position: None).done
    assert word == "files of segments that were joined to others: 1 removed"
    assert not (directory / name).exists()
    assert verify(store.log).ok


def test_an_erased_payload_in_a_joined_segment_that_is_in_use_is_reported(opened: Any) -> None:
    """EVT-12, LH-10: while its file cannot be removed, the report says that the payload may still be on disk."""
    store = opened(segment_bytes_max=SMALL, compress_bytes_min=1 << 40)
    store.append("order/2", tallystick.NewEvent("thing.happened", {"note": "precious"}))
    for number in range(4):
        store.append("order/1", large(number))
    upkeep.prune(store, "order/1", 3)
    directory = Path(store.log.url.removeprefix("files:"))
    name = sealed(store)[0]
    with (directory / name).open("rb"):
        store.log.reclaim(compress_before=None, progress=lambda position: None)
        upkeep.erase(store, "order/2", 1)
        (problem,) = store.report().problems
        assert problem.reason.startswith("the payload of an erased event is still on disk: ")
        assert problem.reason.endswith(f"{name} is held open by a reader")
    store.log.reclaim(compress_before=None, progress=lambda position: None)
    assert store.report().problems == ()
    assert [path for path in directory.rglob("*.log") if b"precious" in path.read_bytes()] == []


@pytest.mark.parametrize("crash", [False, True])
def test_it_holds_on_the_simulated_disk_too(crash: bool) -> None:
    """LH-10: the disk of the crash tests has the same rule, and no file is exempt."""
    disk = SimulatedDisk(pins_open_files=True)
    store = tallystick.open("files:/log", filesystem=disk, segment_bytes_max=SMALL, compress_bytes_min=1)
    for number in range(4):
        store.append("order/1", large(number))
    assert store.report().facts["segments"] == 4
    assert upkeep.prune(store, "order/1", 2)
    if crash:
        disk = disk.clone()
    else:
        store.log._compressor.wait()
        store.log.reclaim(compress_before=None, progress=lambda position: None)
        store.close()
        assert +disk.open_files == {}
    again = tallystick.open("files:/log", filesystem=disk)
    assert [item.data["n"] for item in again.stream("order/1", after=2)] == [2, 3]
    assert verify(again.log).ok
    again.close()
    store.close()
