"""Generations of segments: their headers, which of several files counts, and what a failed rewriting leaves."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import segment
from tallystick.engines.files.rewrite import Unreadable, next_generation
from tallystick.engines.files.segment import BadHeader, Ending, Header
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.clock import ManualClock
from tallystick.testing.faults import Fault

SMALL = 3000
DAY_NS = 24 * 3600 * 10**9
FIRST = Header(store_id=bytes(16), segment_id=bytes(range(16)), first_position=1, created=5)
LATER = msgspec.structs.replace(
    FIRST, generation=70_000, ending=Ending(end=999, next_position=7, encoding=segment.GZIP, erased=3)
)


def reclaim(store: Any, compress_before: int | None = None) -> tuple[str, ...]:
    """Reclaim; what was done."""
    done: tuple[str, ...] = store.log.reclaim(compress_before=compress_before, progress=lambda done: None).done
    return done


def fill(store: Any, count: int = 20) -> list[Any]:
    """Append to two streams until several segments are full; everything that is there."""
    for number in range(count):
        store.append(f"order/{number % 2}", NewEvent("thing.happened", {"number": number, "text": "x" * 400}))
    return list(store.events())


@pytest.mark.parametrize("header", [FIRST, LATER])
def test_a_header_comes_back(header: Header) -> None:
    """LH-06: what was encoded is decoded, in both formats; more bytes after it do not matter."""
    data = segment.encode(header)
    assert len(data) == header.size
    assert segment.decode(data + b"more", path="") == header


@pytest.mark.parametrize("header", [FIRST, LATER])
def test_no_bit_of_a_header_can_change(header: Header) -> None:
    """LH-19: each flipped bit and each cut is a bad header, or a format that is not known."""
    data = segment.encode(header)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadHeader):
            segment.decode(bytes(changed), path="")
    for size in range(len(data)):
        with pytest.raises(BadHeader):
            segment.decode(data[:size], path="")


def test_an_identity_belongs_to_one_generation() -> None:
    """LH-09: the first generation is known by its segment's id, every other one by something else."""
    identities = [segment.identity_of(FIRST.segment_id, generation) for generation in (0, 1, 2, 65_536, 65_537)]
    assert identities[0] == FIRST.segment_id
    assert len(set(identities)) == 5
    assert len({len(identity) for identity in identities}) == 1


def test_a_copy_of_a_segment_is_no_damage(opened: Any, directory: Path) -> None:
    """LH-09, settled 6: the same bytes under another name are read once; reclaiming puts them aside."""
    with opened(segment_bytes_max=SMALL) as store:
        before = fill(store)
    first = sorted(directory.glob("2*.log"))[0]
    copied = first.read_bytes()
    shutil.copy(first, directory / "2020-01-01_001.log")
    store = opened(segment_bytes_max=SMALL)
    assert store.holes() == []
    assert list(store.events()) == before
    assert list(opened(readonly=True).events()) == before
    (word,) = reclaim(store)
    assert "moved to quarantine" in word
    assert len(list(directory.glob("2*.log"))) == len({path.read_bytes() for path in directory.glob("2*.log")})
    (aside,) = directory.glob("quarantine/*")
    assert aside.read_bytes() == copied
    assert list(store.events()) == before
    assert verify(store.log).ok


def test_a_copy_with_other_bytes_is_damage(opened: Any, directory: Path) -> None:
    """Settled 6: no choice is made between two segments of one identity; the log is read-only, and both stay."""
    with opened(segment_bytes_max=SMALL) as store:
        fill(store)
    first = sorted(directory.glob("2*.log"))[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    (directory / "2020-01-01_001.log").write_bytes(data)
    store = opened(segment_bytes_max=SMALL)
    assert store.holes()
    with pytest.raises(errors.Damaged):
        store.append("order/1", events(1))
    with pytest.raises(errors.Damaged):
        reclaim(store)
    assert (directory / "2020-01-01_001.log").read_bytes() == data


def test_an_older_generation_is_not_read(opened: Any, directory: Path) -> None:
    """LH-09, settled 25: a segment from a backup does not bring back what was pruned or erased since."""
    store = opened(segment_bytes_max=SMALL)
    fill(store)
    first = sorted(directory.glob("2*.log"))[0]
    backup = first.read_bytes()
    upkeep.prune(store, "order/0", 3)
    erased = store.read_stream("order/1")[1]
    upkeep.erase(store, "order/1", 2)
    after = list(store.events(over_pruned=True))
    store.close()
    (directory / "2020-01-01_001.log").write_bytes(backup)
    store = opened(segment_bytes_max=SMALL)
    assert (store.holes(), list(store.events(over_pruned=True))) == ([], after)
    upkeep.erase(store, "order/1", 3)
    assert not [path for path in directory.rglob("*") if path.is_file() and erased.payload in path.read_bytes()]
    assert any("quarantine" in str(path) for path in directory.rglob("2020-01-01_001.log*"))


@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM])
def test_a_segment_that_is_in_use_is_rewritten_later(opened: Any, hooked: Any, error: int) -> None:
    """LH-10: where an open file cannot be replaced, the old one stays, and the next call does it."""
    store = opened(filesystem=hooked, segment_bytes_max=SMALL)
    fill(store)
    upkeep.prune(store, "order/0", 8)
    before = list(store.events(over_pruned=True))
    hooked.inject(Fault(operation="rename", error=error, path_part="2", persistent=True))
    words = reclaim(store)
    assert words
    assert all("later" in word for word in words)
    assert list(store.events(over_pruned=True)) == before
    hooked.inject(None)
    assert all("rewritten without" in word for word in reclaim(store))
    assert list(store.events(over_pruned=True)) == before
    assert verify(store.log).ok


def test_a_full_disk_leaves_the_old_generation(opened: Any, hooked: Any, directory: Path) -> None:
    """LH-16: without room for the new generation the old one stays, and the log works."""
    store = opened(filesystem=hooked, segment_bytes_max=SMALL)
    fill(store)
    upkeep.prune(store, "order/0", 8)
    before = list(store.events(over_pruned=True))
    hooked.inject(Fault(operation="write", error=errno.ENOSPC, path_part=".log.tmp"))
    with pytest.raises(errors.NoSpace):
        reclaim(store)
    hooked.inject(None)
    assert not list(directory.glob("*.log.tmp"))
    assert list(store.events(over_pruned=True)) == before
    store.append("order/1", events(1))
    assert reclaim(store)
    assert verify(store.log).ok


def test_what_a_crash_left_half_written_is_removed(opened: Any, directory: Path) -> None:
    """LH-19: our own .tmp goes at the next opening for writing; a reader leaves it, and what is not ours stays."""
    with opened(segment_bytes_max=SMALL) as store:
        fill(store)
    name = sorted(directory.glob("2*.log"))[0].name
    (directory / f"{name}.tmp").write_bytes(b"half")
    (directory / "mine.tmp").write_bytes(b"other")
    opened(readonly=True).close()
    assert (directory / f"{name}.tmp").exists()
    store = opened()
    assert not (directory / f"{name}.tmp").exists()
    assert (directory / "mine.tmp").exists()
    assert store.report().facts["not_ours"] == ["mine.tmp"]


def test_a_segment_without_events_is_no_damage(opened: Any) -> None:
    """LH-06, EVT-09: a segment that holds only leases begins where the next one begins, and that is no overlap."""
    clock = ManualClock()
    store = opened(clock=clock)
    store.append("order/1", events(2))
    clock.now += 2 * DAY_NS
    store.acquire_lease("run/one")  # seals, and is the only frame of the next segment
    clock.now += 2 * DAY_NS
    store.append("order/1", events(2))  # seals that one
    assert len(store.log._view.segments) == 3
    before = list(store.events())
    store.close()
    again = opened(clock=clock)
    assert again.holes() == []
    assert list(again.events()) == before
    assert again.log.lease("run/one").number == 1
    again.append("order/1", events(1))
    assert verify(again.log).ok


def test_the_last_generation_that_can_be_counted_is_not_followed() -> None:
    """The next number would not fit into the header: the segment stays as it is, and the reason is given."""
    last = msgspec.structs.replace(LATER, generation=(1 << 32) - 1)
    assert segment.decode(segment.encode(last), path="") == last
    assert next_generation(msgspec.structs.replace(FIRST, generation=(1 << 32) - 2)).generation == last.generation
    with pytest.raises(Unreadable, match="as often as can be counted"):
        next_generation(last)
