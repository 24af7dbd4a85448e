"""Compressed segments: read in place, by every way of reading, and damaged where a member is damaged."""

from __future__ import annotations

import gzip
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import compressed, segment
from tallystick.engines.files.compressed import CompressedFile
from tallystick.store.verify import verify
from tallystick.testing.clock import ManualClock

DAY_NS = 24 * 3600 * 10**9
SEGMENT_BYTES_MAX = 600_000


def event(number: int) -> NewEvent:
    """An event whose text compresses about as well as real ones."""
    words = random.Random(number).choices(["order", "paid", "customer", "amount", "EUR", "shipped"], k=40)
    return NewEvent("thing.happened", {"number": number, "text": " ".join(words)})


@pytest.fixture
def packed(opened: Any) -> Any:
    """An open log: one segment compressed, one plain, and the current one."""
    clock = ManualClock()
    store = opened(clock=clock, segment_bytes_max=SEGMENT_BYTES_MAX, compress_bytes_min=1 << 40)
    number = 0
    while len(store.log._view.segments) < 3:
        store.append(f"order/{number % 7}", [event(number + at) for at in range(20)])
        number += 20
        clock.now += DAY_NS // 100
    created = store.log._view.segments[1].header.created
    (word,) = store.log.reclaim(compress_before=created + 1, progress=lambda done: None).done
    assert "compressed" in word
    return store


def first_of(directory: Path) -> Path:
    """The compressed segment."""
    (found,) = [
        path for path in directory.glob("2*.log") if segment.decode(path.read_bytes()[:200], path="").ending is not None
    ]
    return found


def test_everything_reads_the_same(packed: Any, opened: Any) -> None:
    """LH-09: by position, by stream and by id, in this process, in another handle, and after reopening."""
    expected = list(packed.events())
    assert [item.position for item in expected] == list(range(1, len(expected) + 1))
    reader = opened(readonly=True)
    for store in (packed, reader):
        assert list(store.events()) == expected
        for item in expected[::97]:
            assert store.find(item.id) == item
            assert store.read_stream(item.stream, after=item.seq - 1, limit=1) == [item]
            assert store.log.recorded_at(item.position) is not None
        assert verify(store.log).ok
    packed.close()
    again = opened()
    assert again.report().recovered == ()
    assert list(again.events()) == expected
    assert again.append("order/0", event(0)).position == len(expected) + 1


def test_it_is_smaller_and_compressed_once(packed: Any, directory: Path) -> None:
    """LH-09: the file is less than half as large, and a second call has nothing to do."""
    path = first_of(directory)
    header = segment.decode(path.read_bytes()[:200], path="")
    assert header.ending is not None
    assert path.stat().st_size < header.ending.end / 2
    again = packed.log.reclaim(compress_before=0, progress=lambda done: None)
    assert (again.done, again.bytes_before) == ((), again.bytes_after)


def test_a_lookup_unpacks_one_member(packed: Any, monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    """LH-18: one event costs one member of about 32 KiB, not the segment."""
    expected = list(packed.events())
    reader = opened(readonly=True)
    unpacked: list[int] = []
    inflated = CompressedFile._inflated
    monkeypatch.setattr(
        CompressedFile, "_inflated", lambda self, member, size: unpacked.append(size) or inflated(self, member, size)
    )
    assert reader.find(expected[1000].id) == expected[1000]
    assert len(unpacked) == 1
    assert unpacked[0] < 2 * compressed.MEMBER_BYTES


def test_gzip_itself_can_read_it(packed: Any, directory: Path, tmp_path: Path) -> None:
    """LH-09: plain gzip members follow the header; with the table cut off, gzip returns the frames."""
    data = first_of(directory).read_bytes()
    count = int.from_bytes(data[-36:-32], "big")
    (tmp_path / "frames.gz").write_bytes(data[segment.SIZE_MAX : len(data) - 36 - 20 * count])
    frames = gzip.decompress((tmp_path / "frames.gz").read_bytes())
    header = segment.decode(data[:200], path="")
    assert header.ending is not None
    assert len(frames) == header.ending.end - segment.SIZE_MAX
    assert subprocess.run(["gzip", "-t", tmp_path / "frames.gz"], check=False).returncode == 0


def test_a_damaged_member_is_a_hole(packed: Any, directory: Path, opened: Any, flip: Any) -> None:
    """Settled 15: the frames of that member are a named hole; everything before and after it is served."""
    expected = list(packed.events())
    packed.close()
    path = first_of(directory)
    flip(path, path.stat().st_size // 2)
    store = opened(readonly=True)
    page = store.read(limit=10_000, over_holes=True)
    (hole,) = page.holes
    assert "is damaged" in hole.reason
    lost = [item.position for item in expected if hole.first <= item.position <= hole.last]
    assert 0 < len(lost) < 1000
    assert page.events == [item for item in expected if item.position not in lost][: len(page.events)]
    with pytest.raises(errors.Damaged):
        store.find(expected[lost[0]].id)
    assert not verify(store.log).ok


def test_a_compressed_segment_that_is_cut_is_damage(packed: Any, directory: Path, opened: Any) -> None:
    """Settled 15: without its end it has no table; the members that are whole are served, the rest is a hole."""
    expected = list(packed.events())
    packed.close()
    path = first_of(directory)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    page = opened(readonly=True).read(limit=10_000, over_holes=True)
    (hole,) = page.holes
    assert page.events[: hole.first - 1] == expected[: hole.first - 1]
    assert hole.first > 100
    assert page.events[hole.first - 1].position == hole.last + 1


def test_a_damaged_index_is_rebuilt(packed: Any, directory: Path, opened: Any) -> None:
    """LH-09: the index of a compressed segment is made again from its members."""
    expected = list(packed.events())
    packed.close()
    (directory / "index" / first_of(directory).with_suffix(".idx").name).write_bytes(b"nothing")
    store = opened()
    assert any("rebuilt the index" in word for word in store.report().recovered)
    assert store.find(expected[500].id) == expected[500]
    assert verify(store.log).ok


def test_it_is_never_written_to(packed: Any) -> None:
    """LH-09: a compressed segment is a file to read."""
    view = packed.log._view
    file = view.handles.get(view.segments[0])
    assert isinstance(file, CompressedFile)
    for act in (lambda: file.write_at(0, b"x"), lambda: file.truncate(0)):
        with pytest.raises(OSError, match="not written to"):
            act()
    file.sync()


def test_threads_may_read_it_together(packed: Any) -> None:
    """LH-10: what is kept of it is replaced in one step, so that no thread sees bytes of another member."""
    expected = list(packed.events())
    wrong: list[int] = []

    def look(seed: int) -> None:
        for item in random.Random(seed).sample(expected[:1500], 60):
            if packed.find(item.id) != item:
                wrong.append(item.position)

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
