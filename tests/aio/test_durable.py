"""What was acknowledged is on disk, and a disk that fails is said so to every task that waits."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import pytest

import tallystick
from tallystick import aio, errors
from tallystick.engines.disk import Disk
from tallystick.testing.builders import event, events, named
from tallystick.testing.crash_states import moments
from tallystick.testing.faults import Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import DiskState, SimulatedDisk, reachable

SIMULATED_URL = f"files:/simulated-{os.getpid()}"  # on the real disk there is nothing of that name


def after_power_loss(moment: DiskState) -> SimulatedDisk:
    """The disk that is left when everything unsynced is lost."""
    contents = {number: inode.durable for number, inode in moment.inodes.items()}
    return SimulatedDisk.holding(reachable(moment.durable_names, contents, moment.inodes))


def test_an_acknowledged_append_survives_a_power_loss_at_that_moment(run: Any) -> None:
    """LH-07: at the moment an await returns, what is durable holds the event, whoever shared the commit."""
    disk = SimulatedDisk()
    acknowledged: dict[int, int] = {}

    async def task(store: aio.AsyncStore, number: int) -> None:
        for _ in range(6):
            done = await store.append(f"order/{number}", events(1 + number % 3))
            now = len(disk.operations)
            acknowledged[now] = max(acknowledged.get(now, 0), done.position)

    async def work() -> None:
        async with await aio.open(SIMULATED_URL, filesystem=disk, segment_bytes_max=4096) as store:
            await asyncio.gather(*(task(store, number) for number in range(12)))

    run(work())
    checked = 0
    for operations, moment in moments(disk):
        if operations in acknowledged:
            with tallystick.open(SIMULATED_URL, filesystem=after_power_loss(moment)) as found:
                assert found.head() >= acknowledged[operations]
                assert not found.holes()
            checked += 1
    assert checked == len(acknowledged) >= 6


def test_a_failed_sync_fails_all_who_wait_and_all_who_come_after(run: Any, files_url: str) -> None:
    """LH-07: after a failed fsync nothing is acknowledged until the store was opened again."""
    faulty = FaultyFileSystem(Disk())

    async def work() -> None:
        store = await aio.open(files_url, filesystem=faulty)
        try:
            await store.append("order/1", named(1))
            faulty.inject(Fault(operation="sync", path_part="current.log"))
            waiting = [store.append("order/1", named(number)) for number in range(2, 42)]
            failed = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(item) for item in failed} == {errors.StoreFailed}
            assert len(set(map(id, failed))) == len(failed), "each task raises an error of its own"
            faulty.inject(None)
            for stream in ("order/1", "order/2"):
                with pytest.raises(errors.StoreFailed):
                    await store.append(stream, event())
        finally:
            await store.close()

    run(work())

    async def again() -> None:
        async with await aio.open(files_url) as store:
            done = [await store.append("order/1", named(number)) for number in range(1, 42)]
            assert [item.seq for item in done] == list(range(1, 42))
            assert done[0].stored == 1
            assert await store.head() == 41

    run(again())


def test_a_full_disk_fails_all_who_wait_and_is_over_when_there_is_room(run: Any, files_url: str) -> None:
    """LH-07: NoSpace is told to each task of the group, nothing of it is stored, and later appends succeed."""
    faulty = FaultyFileSystem(Disk())

    async def work() -> None:
        async with await aio.open(files_url, filesystem=faulty) as store:
            await store.append("order/1", event())
            faulty.inject(Fault(operation="write", path_part="current.log", error=errno.ENOSPC, persistent=True))
            waiting = [store.append("order/1", event()) for _ in range(40)]
            failed = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(item) for item in failed} == {errors.NoSpace}
            assert await store.head() == 1
            faulty.inject(None)
            done = await asyncio.gather(*(store.append("order/1", event()) for _ in range(40)))
            assert sorted(item.seq for item in done) == list(range(2, 42))

    run(work())


def test_what_a_conflict_was_judged_by_is_durable(run: Any) -> None:
    """LH-07: a refusal is told after the commit that it was judged by is on disk, not before."""
    disk = SimulatedDisk()

    async def work() -> int:
        async with await aio.open(SIMULATED_URL, filesystem=disk) as store:
            winner = asyncio.ensure_future(store.append("order/1", event(), expected=0))
            await asyncio.sleep(0)
            with pytest.raises(errors.Conflict):
                await store.append("order/1", event(), expected=0)
            now = len(disk.operations)
            await winner
            return now

    refused = run(work())
    moment = next(state for operations, state in moments(disk) if operations == refused)
    with tallystick.open(SIMULATED_URL, filesystem=after_power_loss(moment)) as found:
        assert found.head() == 1
