"""A log that was closed holds no file open, whatever was done with it before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.store.repair import repair
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import text
from tallystick.testing.simulated_disk import SimulatedDisk

FAR = 1 << 62


def _open(disk: SimulatedDisk, **options: Any) -> Store:
    return tallystick.open("files:/log", filesystem=disk, segment_bytes_max=2000, **options)


def _fill(store: Store) -> None:
    for number in range(12):
        store.append(f"order/{number % 2}", NewEvent("order.placed", {"text": text(500, seed=number)}))


def _keep_up(store: Store) -> None:
    upkeep.snapshot(store, "order/0")
    upkeep.prune(store, "order/1", 3)
    upkeep.erase(store, "order/0", 2)
    store.log.reclaim(compress_before=FAR, progress=lambda position: None)


def _look(store: Store) -> None:
    assert len(list(store.events(over_pruned=True))) > 8
    assert list(store.stream("order/0"))[-1].seq == 6
    assert store.report().facts["segments"] > 1
    assert verify(store.log).ok


@pytest.mark.parametrize("acts", [(_fill,), (_fill, _look), (_fill, _keep_up, _look)], ids=["full", "read", "kept"])
def test_a_closed_log_holds_no_file(acts: tuple[Callable[[Store], None], ...]) -> None:
    """A writer and a reader give back every file: segments, indexes, the mark, snapshots, compressed parts."""
    disk = SimulatedDisk()
    with _open(disk) as store:
        for act in acts:
            act(store)
        assert +disk.open_files
    assert +disk.open_files == {}
    for options in ({"readonly": True}, {}):
        with _open(disk, **options) as store:
            _look(store)
        assert +disk.open_files == {}


def test_a_repair_leaves_no_file_open() -> None:
    """LH-08: what is copied into the quarantine is closed there, too."""
    disk = SimulatedDisk()
    with _open(disk) as store:
        _fill(store)
    image = disk.image()
    name = next(path for path in sorted(image) if path.endswith(".log") and "current" not in path)
    data = bytearray(image[name] or b"")
    data[len(data) // 2] ^= 1
    image |= {name: bytes(data), "/log/current.log": (image["/log/current.log"] or b"") + b"torn"}
    disk = SimulatedDisk.holding(image)
    with _open(disk) as store:
        with pytest.raises(errors.Damaged):
            list(store.events())
        assert repair(store) is not None
        assert any("quarantine" in path for path in disk.image())
    assert +disk.open_files == {}


def test_a_segment_that_was_replaced_is_let_go_at_once() -> None:
    """LH-09: a writer keeps no file open that has no name any more: the room of such a file is not free."""
    disk = SimulatedDisk()
    with _open(disk) as store:
        _fill(store)
    with _open(disk) as store:
        _look(store)
        _keep_up(store)
        _look(store)
        assert set(+disk.open_files) <= set(disk.state.names.values())


def test_a_close_ends_a_compaction_after_the_segment_it_is_at() -> None:
    """LH-09: closing a log waits for one segment, not for all of them; the rest is done another time."""
    store, done = _open(SimulatedDisk()), list[int]()
    _fill(store)
    closing = threading.Thread(target=store.close)

    def progress(position: int) -> None:
        done.append(position)
        if len(done) == 1:
            closing.start()
            tries = iter(range(1000))
            while not store.log._reclaimer.is_ending and next(tries, None) is not None:
                time.sleep(0.01)

    store.log.reclaim(compress_before=FAR, progress=progress)
    closing.join()
    assert len(done) == 1
    with pytest.raises(errors.StoreClosed):
        store.head()
