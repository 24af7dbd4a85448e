"""When a log with default settings begins its next segment, and how hard its files are compressed."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent
from tallystick.testing import upkeep
from tallystick.testing.clock import ManualClock

from .test_compress import first_of, packed

__all__ = ["packed"]  # a fixture

GZIP = 31  # what zlib calls a gzip wrapper
HEADER_BYTES = 188


def _sized(count: int) -> NewEvent:
    return NewEvent("thing.happened", {"text": "x" * count})


def _segments(directory: Path) -> int:
    return len(list(directory.glob("*.log")))


def _size(directory: Path) -> int:
    return (directory / "current.log").stat().st_size


@pytest.mark.filterwarnings("ignore::tallystick.errors.unavailable.LargeEventWarning")
@pytest.mark.parametrize("more", [0, 1])
def test_a_segment_holds_a_hundred_million_bytes_and_not_one_more(opened: Any, directory: Path, more: int) -> None:
    """LH-06: "at 100MB file size": the frame that fits exactly goes in, one that is a byte longer begins the next."""
    store = opened()
    while _size(directory) < 96_000_000:
        store.append("order/1", [_sized(1_000_000)] * 4)
    before = _size(directory)
    store.append("order/1", _sized(900_000))
    around = _size(directory) - before - 900_000  # the size of a frame without its text
    while (left := 100_000_000 - _size(directory)) > 950_000:
        store.append("order/1", _sized(900_000))
    if left > 70_000 + around:
        store.append("order/1", _sized(left - around + more))
    assert _segments(directory) == 1 + more
    assert more or _size(directory) == 100_000_000
    store.append("order/1", _sized(1))
    assert _segments(directory) == 2


def test_a_segment_is_sealed_a_day_after_it_was_begun(opened: Any, directory: Path) -> None:
    """LH-06: "24-hour intervals": not a nanosecond before."""
    clock = ManualClock()
    store = opened(clock=clock)
    store.append("order/1", _sized(1))
    clock.now += 24 * 3600 * 10**9 - 1
    store.append("order/1", _sized(1))
    assert _segments(directory) == 1
    clock.now += 1
    store.append("order/1", _sized(1))
    assert _segments(directory) == 2


def _levels(data: bytes) -> list[int]:
    """The levels of gzip that give exactly these bytes."""
    text = zlib.decompress(data, GZIP)

    def packed(level: int) -> bytes:
        packer = zlib.compressobj(level, wbits=GZIP)
        return packer.compress(text) + packer.flush()

    return [level for level in range(1, 10) if packed(level)[10:] == data[10:]]


def test_a_snapshot_is_packed_as_its_format_says(opened: Any, directory: Path) -> None:
    """LH-12: "gzip level 6 (balanced speed/size)": no other level gives these bytes."""
    store = opened()
    store.append("order/1", _sized(1))
    words = random.Random(1).choices(["order", "paid", "customer", "amount", "shipped"], k=8000)
    body = ('{"text":"' + " ".join(f"{word}{number % 97}" for number, word in enumerate(words)) + '"}').encode()
    upkeep.snapshot(store, "order/1", body)
    (path,) = (directory / "snapshots").glob("*.snap")
    assert _levels(path.read_bytes()) == [6]


def test_a_sealed_segment_is_packed_as_its_format_says(packed: Any, directory: Path) -> None:
    """LH-09: the members of a compressed segment are gzip of level 6."""
    data = first_of(directory).read_bytes()[HEADER_BYTES:]
    unpacker = zlib.decompressobj(GZIP)
    unpacker.decompress(data)
    member = data[: len(data) - len(unpacker.unused_data)]
    assert _levels(member) == [6]
    assert member[4:8] == bytes(4)  # no time: the same segment has the same bytes wherever it was packed
