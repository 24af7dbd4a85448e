"""Sealed segments are compressed automatically while the writer works. A failure is reported, and tried again."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.builders import events
from tallystick.testing.faults import Fault

SEGMENT_BYTES_MAX = 40_000
MINIMUM = 10_000


def fill(store: Any, segments: int = 3) -> list[Any]:
    """Append until there are so many segments; returns all events."""
    while len(store.log._view.segments) < segments:
        store.append("order/1", events(50))
    return list(store.events())


def facts(store: Any) -> tuple[int, int, str]:
    """How many segments are compressed, of how many, and why not."""
    found = store.report().facts
    return found["compressed_segments"], found["segments"], found["not_compressed"]


def settled(store: Any) -> tuple[int, int, str]:
    """The same, when there is nothing more to do."""
    store.log._compressor.wait()
    return facts(store)


def test_what_is_sealed_is_compressed(opened: Any, directory: Path) -> None:
    """LH-09, LH-18: without a call and without a policy; no reader sees a difference, in this process or another."""
    store = opened(segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=MINIMUM)
    store.append("order/1", events(10))
    reader = opened(readonly=True)
    assert len(list(reader.events())) == 10
    expected = fill(store)
    assert settled(store) == (2, 3, "")
    for handle in (store, reader, opened(readonly=True)):
        assert list(handle.events()) == expected
        assert handle.find(expected[7].id) == expected[7]
        assert verify(handle.log).ok
    assert all(path.stat().st_size < SEGMENT_BYTES_MAX / 2 for path in directory.glob("2*.log"))


def test_by_default_a_segment_of_64_kib_is(opened: Any) -> None:
    """LH-18: no call is needed; smaller segments are left to retention."""
    store = opened(segment_bytes_max=100_000)
    fill(store, 2)
    assert settled(store) == (1, 2, "")
    store.close()
    again = opened(segment_bytes_max=30_000)
    fill(again, 5)
    assert settled(again) == (1, 5, "")


def test_what_an_earlier_process_left_is_compressed_at_opening(opened: Any) -> None:
    """LH-09: after a crash between sealing and compressing, or in a log of an older version."""
    store = opened(segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 40)
    expected = fill(store)
    assert settled(store) == (0, 3, "")
    store.close()
    reader = opened(readonly=True, compress_bytes_min=MINIMUM)
    assert settled(reader) == (0, 3, "")
    again = opened(compress_bytes_min=MINIMUM)
    assert settled(again) == (2, 3, "")
    assert list(again.events()) == expected


@pytest.mark.parametrize(
    "fault",
    [
        Fault(operation="write", error=errno.ENOSPC, path_part="001.log.tmp"),
        Fault(operation="sync", error=errno.EIO, path_part="001.log.tmp"),
        Fault(operation="rename", error=errno.EACCES, path_part="001.log"),
    ],
    ids=["no room", "no sync", "held open"],
)
def test_what_fails_is_said_and_tried_again(opened: Any, hooked: Any, directory: Path, fault: Any) -> None:
    """LH-16: the segment stays as it was, appends continue, and the next sealing does it."""
    store = opened(filesystem=hooked, segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 40)
    fill(store, 2)
    store.close()
    store = opened(filesystem=hooked, segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 40)
    store.log._compressor._bytes_min = MINIMUM
    hooked.inject(fault)
    store.log._compressor.begin(store.log._view.segments[:-1])
    compressed, segments, why_not = settled(store)
    assert (compressed, segments) == (0, 2)
    assert why_not
    assert not list(directory.glob("*.tmp"))
    hooked.inject(None)
    expected = fill(store)
    assert settled(store) == (2, 3, "")
    assert list(store.events()) == expected
    assert verify(store.log).ok


def test_appends_do_not_wait_for_it(opened: Any, hooked: Any) -> None:
    """LH-18: while a segment is being compressed, the log is read and written to; closing waits for it."""
    begun, go_on = threading.Event(), threading.Event()

    def stop(operation: str, path: str) -> None:
        if operation == "create" and path.endswith("_001.log.tmp"):
            begun.set()
            assert go_on.wait(60)

    store = opened(filesystem=hooked, segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=MINIMUM)
    hooked.before = stop
    fill(store, 2)
    assert begun.wait(60)
    store.append("order/1", events(3))
    assert facts(store)[0] == 0
    assert len(list(store.events())) == store.head()
    closing = threading.Thread(target=store.close)
    closing.start()
    assert closing.is_alive()
    go_on.set()
    closing.join(60)
    assert facts(opened(readonly=True)) == (1, 2, "")


def test_a_damaged_segment_is_not_compressed_and_is_said(opened: Any, directory: Path, flip: Any) -> None:
    """SAFE-03: compression reads every frame; an invalid one goes on record, and no byte is changed."""
    with opened(segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 40) as store:
        fill(store)
    path = sorted(directory.glob("2*.log"))[0]
    flip(path, 5000)
    before = path.read_bytes()
    store = opened(compress_bytes_min=MINIMUM)
    compressed, _, why_not = settled(store)
    assert compressed <= 1
    assert path.name in why_not
    assert path.read_bytes() == before
    with pytest.raises(errors.Damaged):
        store.append("order/1", events(1))


@pytest.mark.parametrize(("more", "compressed"), [(0, 1), (1, 0)])
def test_a_segment_of_exactly_the_minimum_is_compressed(opened: Any, more: int, compressed: int) -> None:
    """LH-09: the bytes of its frames count, without its header."""
    with opened(segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 30) as store:
        fill(store, 2)
        sealed = store.log._view.segments[0]
        size = sealed.end - sealed.header.size
        assert settled(store)[0] == 0
    store = opened(segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=size + more)
    assert settled(store)[0] == compressed
