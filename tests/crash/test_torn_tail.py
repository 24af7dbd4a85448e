"""The end of the log, damaged at every byte: past the synced mark it is a torn tail, before it it is damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.simulated_disk import SimulatedDisk

FRAMES_TORN = 3

FILLS: dict[str, Callable[[bytes, int], bytes]] = {
    "short": lambda log, cut: b"",
    "zeros to the old length": lambda log, cut: bytes(len(log) - cut),
    "zeros to the block's end": lambda log, cut: bytes(4096 - cut),
    "ones": lambda log, cut: b"\xff" * (len(log) - cut),
    "old data": lambda log, cut: log[: len(log) - cut],
}


def torn(lab: Any, grown: Any, *, cut: int, fill: str, mark: int) -> SimulatedDisk:
    """The log cut at a byte and filled up, with the mark as it was after so many appends."""
    log = grown.log()
    image = dict(grown.images[-1])
    image[f"{lab.directory}/current.log"] = log[:cut] + FILLS[fill](log, cut)
    image[f"{lab.directory}/synced"] = grown.mark(mark)
    return SimulatedDisk.holding(image)


def whole(grown: Any, cut: int) -> int:
    """How many appends are whole in the first `cut` bytes."""
    return max(number for number in range(len(grown.images)) if len(grown.log(number)) <= cut)


def cuts(grown: Any, fill: str) -> list[int]:
    """Every byte of the last frames that the fill changes: one that it repeats is torn a byte later."""
    log = grown.log()
    torn = range(len(grown.log(-1 - FRAMES_TORN)), len(log))
    return [cut for cut in torn if FILLS[fill](log, cut)[:1] != log[cut : cut + 1]]


@pytest.mark.parametrize("fill", FILLS)
def test_a_torn_tail_is_cut_at_the_exact_boundary_and_kept(lab: Any, grown: Any, fill: str) -> None:
    """LH-08, settled 7: past the mark the log is cut at the last whole frame; what was cut is kept and reported."""
    for cut in cuts(grown, fill):
        frames = whole(grown, cut)
        disk = torn(lab, grown, cut=cut, fill=fill, mark=frames)
        before = disk.image()[f"{lab.directory}/current.log"] or b""
        boundary = len(grown.log(frames))
        with lab.open_store(disk) as store:
            where = f"{fill}, cut at {cut}"
            assert lab.events_of(store) == grown.events[:frames], where
            assert not store.holes(), where
            assert verify(store.log).ok, where
            assert bool(store.report().recovered) == (len(before) > boundary), where
            after = disk.image()[f"{lab.directory}/current.log"] or b""
            assert after[:boundary] == before[:boundary], where
            kept = [data for path, data in disk.image().items() if data and "/quarantine/" in path]
            assert kept == ([before[boundary:]] if before[boundary:].strip(b"\0") else []), where
            store.append("order/after", lab.event(99))
        assert len(lab.recovered(disk)) == frames + 1, where


@pytest.mark.parametrize("fill", FILLS)
def test_a_lagging_mark_costs_nothing(lab: Any, grown: Any, fill: str) -> None:
    """LH-19: the mark may lag behind the whole frames; they are served anyway."""
    for cut in cuts(grown, fill)[::7]:
        frames = whole(grown, cut)
        for mark in range(frames):
            disk = torn(lab, grown, cut=cut, fill=fill, mark=mark)
            assert lab.recovered(disk) == grown.events[:frames], f"{fill}, cut at {cut}, mark {mark}"


def without_record(disk: SimulatedDisk) -> dict[str, bytes | None]:
    """What a disk holds without the record of damage, which is not part of the log."""
    return {path: data for path, data in disk.image().items() if not path.endswith("/damage.json")}


@pytest.mark.parametrize("fill", FILLS)
def test_the_same_damage_below_the_mark_is_refused_and_changes_nothing(lab: Any, grown: Any, fill: str) -> None:
    """Settled 7 and 15: before the mark nothing is cut; the log opens read-only and names the hole."""
    for cut in cuts(grown, fill):
        disk = torn(lab, grown, cut=cut, fill=fill, mark=-1)
        before = disk.image()
        frames = whole(grown, cut)
        where = f"{fill}, cut at {cut}"
        with lab.open_store(disk) as store:
            holes = store.holes()
            assert [hole.first for hole in holes] == [frames + 1], where
            assert holes[-1].last == len(grown.events), where
            assert store.read(until=frames).events == grown.events[:frames], where
            with pytest.raises(errors.Damaged):
                store.read(after=frames)
            with pytest.raises(errors.Damaged):
                store.append("order/after", lab.event(99))
            assert not verify(store.log).ok, where
        assert without_record(disk) == before, where


def test_damage_in_the_middle_is_a_hole_between_readable_events(lab: Any, grown: Any) -> None:
    """Settled 15: a changed byte in any frame but the last leaves all other events readable and the hole marked."""
    log = grown.log()
    for number in range(1, len(grown.events)):
        for at in range(len(grown.log(number - 1)), len(grown.log(number)), 5):
            image = dict(grown.images[-1])
            image[f"{lab.directory}/current.log"] = log[:at] + bytes([log[at] ^ 0x10]) + log[at + 1 :]
            image[f"{lab.directory}/synced"] = grown.mark(0)  # even a mark that knows nothing does not make it a tail
            disk = SimulatedDisk.holding(image)
            before = disk.image()
            with lab.open_store(disk) as store:
                page = store.read(over_holes=True)
                assert page.events == grown.events[: number - 1] + grown.events[number:], at
                assert [(hole.first, hole.last) for hole in page.holes] == [(number, number)], at
                with pytest.raises(errors.Damaged):
                    store.append("order/after", lab.event(99))
            assert without_record(disk) == before, at
