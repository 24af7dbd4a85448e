"""A log that was closed holds no file open, whatever was done with it before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.store.repair import repair
from tallystick.store.verify import verify
from tallystick.testing.builders import text
from tallystick.testing.simulated_disk import SimulatedDisk


def _open(disk: SimulatedDisk, **options: Any) -> Store:
    return tallystick.open("files:/log", filesystem=disk, segment_bytes_max=2000, **options)


def _fill(store: Store) -> None:
    for number in range(12):
        store.append(f"order/{number % 2}", NewEvent("order.placed", {"text": text(500, seed=number)}))


def _look(store: Store) -> None:
    assert len(list(store.events(over_pruned=True))) > 8
    assert list(store.stream("order/0"))[-1].seq == 6
    assert store.report().facts["segments"] > 1
    assert verify(store.log).ok


@pytest.mark.parametrize("acts", [(_fill,), (_fill, _look)], ids=["full", "read"])
def test_a_closed_log_holds_no_file(acts: tuple[Callable[[Store], None], ...]) -> None:
    """A writer and a reader give back every file: segments, indexes, the mark."""
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
