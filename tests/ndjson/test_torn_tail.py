"""The end of a run's log, damaged at every byte: after the synced mark it is a torn commit, before it damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick import errors
from tallystick.store.verify import verify
from tallystick.testing.simulated_disk import SimulatedDisk

FILLS: dict[str, Callable[[bytes, int], bytes]] = {
    "short": lambda log, cut: b"",
    "zeros to the old length": lambda log, cut: bytes(len(log) - cut),
    "ones": lambda log, cut: b"\xff" * (len(log) - cut),
    "old data": lambda log, cut: log[: min(cut, len(log) - cut)],
    "another line": lambda log, cut: b"#\n",
}


def torn(lab: Any, grown: Any, *, cut: int, fill: str, mark: int) -> SimulatedDisk:
    """The log, cut at a byte and filled up, with the mark as it was after so many commits."""
    log = grown.file(lab.log)
    image = dict(grown.images[-1])
    image[lab.log] = log[:cut] + FILLS[fill](log, cut)
    image[lab.mark] = grown.file(lab.mark, mark)
    return SimulatedDisk.holding(image)


@pytest.mark.parametrize("fill", FILLS)
def test_a_torn_commit_is_cut_at_its_beginning_and_kept(lab: Any, grown: Any, fill: str) -> None:
    """RUN-01: after the mark the log is cut where the torn commit begins, not inside it. The cut bytes are kept."""
    for cut in range(len(grown.file(lab.log, 1)), len(grown.file(lab.log)), 3):
        commits = grown.whole(lab.log, cut)
        disk = torn(lab, grown, cut=cut, fill=fill, mark=commits)
        before = disk.image()[lab.log] or b""
        boundary = len(grown.file(lab.log, commits))
        where = f"{fill}, cut at {cut}"
        with lab.open_store(disk) as store:
            assert store.read_stream("run/a") == grown.events[: grown.commits[commits]], where
            assert verify(store.log).ok, where
            assert disk.image()[lab.log] == before[:boundary], where
            kept = [data for path, data in disk.image().items() if data and "/quarantine/" in path]
            assert kept == ([before[boundary:]] if before[boundary:].strip(b"\0") else []), where
            assert bool(store.report().recovered) == bool(kept), where
            assert store.append("run/a", lab.event(99)).first_seq == grown.commits[commits] + 1
        assert len(lab.recovered(disk)["run/a"]) == grown.commits[commits] + 1, where


def test_a_lagging_mark_costs_nothing(lab: Any, grown: Any) -> None:
    """RUN-01: if the mark lags behind complete commits, or is unreadable, they are still served."""
    for mark in range(len(grown.images)):
        disk = torn(lab, grown, cut=len(grown.file(lab.log)), fill="short", mark=mark)
        assert lab.recovered(disk)["run/a"] == grown.events
    image = dict(grown.images[-1])
    image[lab.mark] = b"nothing that can be read"
    assert lab.recovered(SimulatedDisk.holding(image))["run/a"] == grown.events


@pytest.mark.parametrize("fill", FILLS)
def test_the_same_damage_below_the_mark_is_refused_and_changes_nothing(lab: Any, grown: Any, fill: str) -> None:
    """RUN-01, settled 7 and 15: acknowledged lines are never cut. The run is refused by name and range."""
    for cut in range(len(grown.file(lab.log, 2)), len(grown.file(lab.log)), 7):
        disk = torn(lab, grown, cut=cut, fill=fill, mark=-1)
        before = {path: data for path, data in disk.image().items() if not path.endswith(("/lock", "/damage.json"))}
        where = f"{fill}, cut at {cut}"
        with lab.open_store(disk) as store:
            with pytest.raises(errors.Damaged, match="run/a"):
                store.append("run/a", lab.event(99))
            assert store.holes(), where
            whole = store.read().events
            assert whole == grown.events[: len(whole)], where
            with pytest.raises(errors.Damaged):  # not a part as if it were the stream
                store.read_stream("run/a")
            with pytest.raises(errors.Damaged):
                store.read_stream("run/a", after=len(whole))
            assert not verify(store.log).ok, where
        after = {path: data for path, data in disk.image().items() if not path.endswith(("/lock", "/damage.json"))}
        assert after == before, where


def test_damage_with_a_later_commit_behind_it_is_no_torn_tail(lab: Any, grown: Any) -> None:
    """Settled 7: a changed byte in any commit but the last is damage, even if the mark was not written."""
    log = grown.file(lab.log)
    for at in range(0, len(grown.file(lab.log, 3)), 11):
        image = dict(grown.images[-1])
        image[lab.log] = log[:at] + bytes([log[at] ^ 0x10]) + log[at + 1 :]
        image[lab.mark] = grown.file(lab.mark, 0)
        disk = SimulatedDisk.holding(image)
        with lab.open_store(disk) as store, pytest.raises(errors.Damaged, match="run/a"):
            store.append("run/a", lab.event(99))
        assert disk.image()[lab.log] == image[lab.log], at


def test_other_runs_go_on_beside_a_damaged_one(lab: Any, grown: Any) -> None:
    """Settled 15: damage in one run affects only that run, and events outside the hole stay readable."""
    log = grown.file(lab.log)
    middle = len(grown.file(lab.log, 1)) + 40
    image = dict(grown.images[-1])
    image[lab.log] = log[:middle] + b"#" + log[middle + 1 :]
    with lab.open_store(SimulatedDisk.holding(image)) as store:
        store.append("run/b", lab.event(1))
        page = store.read(over_holes=True)
        assert [item.seq for item in page.events if item.stream == "run/a"] == [1, 3, 4, 5, 6, 7]
        assert [item.stream for item in page.events][-1] == "run/b"
        assert [(hole.first & 0xFFFF, hole.last & 0xFFFF) for hole in page.holes] == [(2, 2)]
