"""Opening, cancelling and closing: what becomes of tasks that wait."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

import tallystick
from tallystick import aio, errors
from tallystick.aio import writer_thread
from tallystick.engines.disk import Disk
from tallystick.store.filesystem import File
from tallystick.store.verify import verify
from tallystick.testing.builders import event, events, named
from tallystick.testing.faults import FaultyFile, FaultyFileSystem


class GatedDisk(FaultyFileSystem):
    """The real disk; while `gate` is clear, a sync of the current segment waits."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def open_write(self, path: str) -> File:
        return GatedFile(self, self.inner.open_write(path), path)


class GatedFile(FaultyFile):
    """A file whose syncs wait for the gate."""

    def sync(self) -> None:
        system: Any = self._system
        system.reached.set()
        assert system.gate.wait(60)
        super().sync()


async def wait_for(happened: threading.Event) -> None:
    """Wait for another thread without holding up the loop."""
    assert await asyncio.to_thread(happened.wait, 60)


# --- the window ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window_ms", [-0.001, 10.001, float("nan"), float("inf"), "5", None, True])
def test_a_window_outside_its_bounds_is_refused_and_opens_nothing(run: Any, durable_url: str, window_ms: Any) -> None:
    """LH-07: the window is from 0 to 10 ms; a refused opening leaves the store free."""

    async def work() -> None:
        with pytest.raises(errors.InvalidValue):
            await aio.open(durable_url, window_ms=window_ms)

    run(work())
    tallystick.open(durable_url).close()


@pytest.mark.parametrize("window_ms", [0, 0.5, 10])
def test_every_window_within_its_bounds_acknowledges(run: Any, url: str, window_ms: float) -> None:
    """LH-07: both bounds count, and an append is answered whatever the window."""

    async def work() -> None:
        async with await aio.open(url, window_ms=window_ms) as store:
            done = await asyncio.gather(*(store.append("order/1", event()) for _ in range(10)))
            assert [item.seq for item in done] == list(range(1, 11))

    run(work())


# --- following -----------------------------------------------------------------------------------------------------


def test_a_cancelled_append_is_there_or_not_and_its_neighbours_are(run: Any, url: str) -> None:
    """LH-07: cancelling some tasks loses no other task's append, and a retry by id settles what became of theirs."""

    async def work() -> None:
        async with await aio.open(url) as store:
            waiting = [asyncio.ensure_future(store.append("order/1", named(number))) for number in range(100)]
            await asyncio.sleep(0)
            for task in waiting[::3]:
                task.cancel()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(item, asyncio.CancelledError) for item in done[::3])
            assert not [item for at, item in enumerate(done) if at % 3 and isinstance(item, BaseException)]
            for number in range(0, 100, 3):
                await store.append("order/1", named(number))
            found = [item.id async for item in store.events()]
            assert sorted(found) == [named(number).id for number in range(100)]
            assert verify(store.store.log).ok

    run(work())


def test_a_task_cancelled_in_the_middle_of_a_commit_harms_nobody(run: Any, files_url: str) -> None:
    """LH-07: while the disk syncs, tasks of that very commit are cancelled; the others get their answers."""
    disk = GatedDisk()

    async def work() -> None:
        async with await aio.open(files_url, filesystem=disk) as store:
            disk.reached.clear()
            disk.gate.clear()
            waiting = [asyncio.ensure_future(store.append("order/1", named(number))) for number in range(10)]
            await wait_for(disk.reached)
            for task in waiting[:5]:
                task.cancel()
            disk.gate.set()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert [isinstance(item, asyncio.CancelledError) for item in done] == [True] * 5 + [False] * 5
            assert await store.head() == 10

    run(work())


def test_a_task_that_waits_for_room_can_be_cancelled(run: Any, files_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-07: an append that was never handed in leaves nothing behind, and those behind it get in."""
    monkeypatch.setattr(writer_thread, "PENDING_MAX", 1)
    disk = GatedDisk()

    async def work() -> None:
        async with await aio.open(files_url, filesystem=disk) as store:
            disk.reached.clear()
            disk.gate.clear()
            first = asyncio.ensure_future(store.append("order/1", named(1)))
            await wait_for(disk.reached)
            rest = [asyncio.ensure_future(store.append("order/1", named(number))) for number in (2, 3, 4)]
            await asyncio.sleep(0)
            rest[1].cancel()
            disk.gate.set()
            done = await asyncio.gather(first, *rest, return_exceptions=True)
            assert isinstance(done[2], asyncio.CancelledError)
            assert await store.find(named(3).id) is None
            assert await store.head() == 3

    run(work())


# --- closing -------------------------------------------------------------------------------------------------------


def test_closing_waits_for_what_was_handed_in_and_then_refuses(run: Any, files_url: str) -> None:
    """LH-07: close commits what waits, answers it, and refuses what comes later, from its first moment on."""
    disk = GatedDisk()

    async def work() -> None:
        store = await aio.open(files_url, filesystem=disk)
        disk.reached.clear()
        disk.gate.clear()
        waiting = [asyncio.ensure_future(store.append("order/1", named(number))) for number in range(10)]
        await wait_for(disk.reached)
        waiting += [asyncio.ensure_future(store.append("order/1", named(number))) for number in range(10, 20)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        with pytest.raises(errors.StoreClosed):
            await store.append("order/1", named(99))
        assert not closing.done()
        disk.gate.set()
        await closing
        assert sorted([(await task).seq for task in waiting]) == list(range(1, 21))
        for call in (store.append("order/1", event()), store.append_all([("order/1", events(1), -1)]), store.head()):
            with pytest.raises(errors.StoreClosed):
                await call

    run(work())
    with tallystick.open(files_url) as found:
        assert found.head() == 20


def test_those_who_wait_for_room_are_told_of_the_close(
    run: Any, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-07: an append that had no room yet when the store closed gets StoreClosed and is not written."""
    monkeypatch.setattr(writer_thread, "PENDING_MAX", 1)
    disk = GatedDisk()

    async def work() -> None:
        store = await aio.open(files_url, filesystem=disk)
        disk.reached.clear()
        disk.gate.clear()
        first = asyncio.ensure_future(store.append("order/1", event()))
        await wait_for(disk.reached)
        rest = [asyncio.ensure_future(store.append("order/1", event())) for _ in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        disk.gate.set()
        await closing
        done = await asyncio.gather(first, *rest, return_exceptions=True)
        stored = [item for item in done if not isinstance(item, errors.StoreClosed)]
        assert [item.seq for item in stored] == list(range(1, len(stored) + 1))
        assert len(stored) == 2

    run(work())
    with tallystick.open(files_url) as found:
        assert found.head() == 2


def test_closing_twice_and_from_several_tasks_is_allowed(run: Any, url: str) -> None:
    """LH-15: close may be called again, also while another task closes."""

    async def work() -> None:
        store = await aio.open(url)
        await store.append("order/1", event())
        await asyncio.gather(store.close(), store.close())
        await store.close()
        with pytest.raises(errors.StoreClosed):
            await store.append("order/1", event())

    run(work())


def test_an_append_beside_a_close_always_gets_an_answer(run: Any, url: str) -> None:
    """LH-07: tasks that append while the store closes are either appended or refused; none waits for ever."""

    async def once(number: int) -> None:
        store = await aio.open(url)
        before = await store.head()
        appended = 0

        async def keep_appending() -> None:
            nonlocal appended
            while True:
                await store.append("order/1", event())
                appended += 1

        tasks = [asyncio.ensure_future(keep_appending()) for _ in range(8)]
        for _ in range(number % 7):
            await asyncio.sleep(0)
        await store.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {errors.StoreClosed}
        if not url.startswith("memory"):
            with tallystick.open(url, readonly=True) as found:
                assert found.head() == before + appended

    async def work() -> None:
        for number in range(20):
            await once(number)

    run(work())


ABANDONING = """
import asyncio, sys
import tallystick
from tallystick import NewEvent, aio

async def append_and_leave(url):
    store = await aio.open(url)
    await store.append("order/1", NewEvent("made", {}))
    for _ in range(500):
        asyncio.ensure_future(store.append("order/1", NewEvent("made", {})))
    await asyncio.sleep(0)

loop = asyncio.new_event_loop()
loop.run_until_complete(append_and_leave(sys.argv[1]))
tasks = asyncio.all_tasks(loop)
for task in tasks:
    task.cancel()
loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
loop.close()
print("left", flush=True)
"""


def test_a_loop_that_is_closed_with_appends_in_flight_does_not_hang_the_process(durable_url: str) -> None:
    """LH-15: a program that leaves without closing ends, and its log holds what was acknowledged."""
    done = subprocess.run(
        [sys.executable, "-c", ABANDONING, durable_url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
    with tallystick.open(durable_url) as found:
        assert 1 <= found.head() <= 501
        assert verify(found.log).ok
