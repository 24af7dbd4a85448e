"""The bytes after the last frame may be as large as a disk: they are read in pieces."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tallystick.store.verify import verify
from tallystick.testing.builders import events

TAIL_BYTES = 256 << 20
PEAK_BYTES_MAX = 64 << 20


@pytest.mark.parametrize("last", [b"", b"x"], ids=["zeros", "torn"])
def test_a_large_tail_is_cut_without_holding_it_in_memory(opened: Any, directory: Path, last: bytes) -> None:
    """LH-08, settled 7: a tail of a quarter of a gigabyte is cut, and kept unless it is zeros, in little memory."""
    with opened() as store:
        store.append("order/1", events(3))
    log = directory / "current.log"
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(size + TAIL_BYTES - len(last))
        file.seek(0, 2)
        file.write(last)
    tracemalloc.start()
    try:
        store = opened()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX
    assert log.stat().st_size == size
    kept = [path.stat().st_size for path in (directory / "quarantine").iterdir()]
    assert kept == ([TAIL_BYTES] if last else [])
    assert store.append("order/1", events(1)).seq == 4
    assert verify(store.log).ok
