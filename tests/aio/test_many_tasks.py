"""Many tasks, each awaiting its own append: group commit shares the fsync and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallystick import NewEvent, aio, errors
from tallystick.aio import writer_thread
from tallystick.store.verify import verify
from tallystick.testing.builders import event
from tallystick.testing.faults import FaultyFileSystem

TASKS = 64
EACH = 20


async def append_each(store: aio.AsyncStore, task: int, *, shared: bool = False) -> list[int]:
    """Append one event after the other, each awaited; their positions."""
    stream = "order/all" if shared else f"order/{task}"
    made = [NewEvent("order.made", {"task": task, "n": number}) for number in range(EACH)]
    return [(await store.append(stream, item)).position for item in made]


@pytest.mark.parametrize("shared", [False, True], ids=["own-streams", "one-stream"])
def test_nothing_is_lost_and_nothing_doubled(run: Any, url: str, shared: bool) -> None:
    """LH-07: 64 tasks with 20 appends each: every event is there once, where its task was told, without gaps."""

    async def work() -> None:
        async with await aio.open(url) as store:
            told = await asyncio.gather(*(append_each(store, task, shared=shared) for task in range(TASKS)))
            found = {item.position: item async for item in store.events()}
            assert sorted(found) == list(range(1, TASKS * EACH + 1))
            for task, positions in enumerate(told):
                assert [found[at].data for at in positions] == [{"task": task, "n": n} for n in range(EACH)]
            verified = verify(store.store.log)
            assert verified.ok, verified.problems
            assert verified.streams == (1 if shared else TASKS)

    run(work())


def test_a_task_finds_its_appends_in_the_order_it_made_them(run: Any, url: str) -> None:
    """LH-07: appends of one task that wait together keep their order, though the group is committed as one."""

    async def work() -> None:
        async with await aio.open(url) as store:
            made = [asyncio.ensure_future(store.append(f"order/{number % 3}", event(number))) for number in range(300)]
            done = await asyncio.gather(*made)
            assert [item.position for item in done] == list(range(1, 301))

    run(work())


def test_many_appends_share_a_sync(run: Any, files_url: str, counted: FaultyFileSystem) -> None:
    """LH-07: with 64 tasks in step there are far fewer syncs than appends, and at least one for each round."""

    async def work() -> int:
        async with await aio.open(files_url, filesystem=counted) as store:
            before = counted.counts["sync"]
            await asyncio.gather(*(append_each(store, task) for task in range(TASKS)))
            return counted.counts["sync"] - before

    syncs = run(work())
    assert EACH <= syncs <= TASKS * EACH // 8


def test_a_lone_task_gets_a_sync_for_each_append(run: Any, files_url: str, counted: FaultyFileSystem) -> None:
    """LH-07: with nobody to share with, every acknowledged append has a sync of its own."""

    async def work() -> int:
        async with await aio.open(files_url, filesystem=counted) as store:
            before = counted.counts["sync"]
            await append_each(store, 1)
            return counted.counts["sync"] - before

    assert run(work()) == EACH


def test_a_window_gathers_more(run: Any, files_url: str, counted: FaultyFileSystem) -> None:
    """LH-07: in the batching mode appends that come one after the other within the window share one sync."""

    async def work() -> int:
        async with await aio.open(files_url, filesystem=counted, window_ms=10) as store:
            before = counted.counts["sync"]
            waiting = []
            for number in range(50):
                waiting.append(asyncio.ensure_future(store.append("order/1", event(number))))
                await asyncio.sleep(0)
            await asyncio.gather(*waiting)
            return counted.counts["sync"] - before

    assert run(work()) <= 10


REFUSED: dict[str, tuple[str, Any, int, type[errors.TallyError]]] = {
    "conflict": ("order/bad", NewEvent("made", {}), 7, errors.Conflict),
    "payload": ("order/bad", NewEvent("made", {"n": float("nan")}), -1, errors.NotCanonical),
    "object": ("order/bad", NewEvent("made", object()), -1, errors.TallyError),
    "name": ("no stream", NewEvent("made", {}), -1, errors.InvalidName),
    "reserved": ("tally.audit/1", NewEvent("made", {}), -1, errors.ReservedName),
    "secret": ("order/bad", NewEvent("made", {"key": "AKIA" + "IOSFODNN7EXAMPLQ"}), -1, errors.SecretFound),
    "meta": ("order/bad", NewEvent("made", {}, meta={"org": 5}), -1, errors.TallyError),
    "size": ("order/bad", NewEvent("made", {"text": "x" * (1 << 20)}), -1, errors.TooLarge),
    "nothing": ("order/bad", [], -1, errors.InvalidValue),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_append_fails_alone(run: Any, url: str, what: str) -> None:
    """LH-07: in a shared commit the one that breaks a rule gets its own error; its neighbours succeed."""
    stream, bad, expected, kind = REFUSED[what]

    async def work() -> None:
        async with await aio.open(url) as store:
            good = [store.append(f"order/{number}", event(number), expected=0) for number in range(20)]
            wrong = store.append(stream, bad, expected=expected)
            done = await asyncio.gather(*good[:10], wrong, *good[10:], return_exceptions=True)
            refusal = done.pop(10)
            assert isinstance(refusal, kind), refusal
            assert [item.position for item in done] == list(range(1, 21))
            assert await store.head() == 20

    run(work())


def test_of_rivals_in_one_commit_one_wins(run: Any, url: str) -> None:
    """LH-07: of tasks that expect the same seq and wait together one is appended; each other gets its own Conflict."""

    async def work() -> None:
        async with await aio.open(url) as store:
            rivals = [store.append("order/1", event(number), expected=0) for number in range(30)]
            done = await asyncio.gather(*rivals, return_exceptions=True)
            refusals = [item for item in done if isinstance(item, errors.Conflict)]
            assert (len(done) - len(refusals), len(set(map(id, refusals)))) == (1, 29)
            assert await store.head() == 1

    run(work())


def test_when_too_many_wait_the_next_ones_wait_for_room(run: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-07: past the bound on what is on its way, appends wait, the queue stays short, and all succeed."""
    monkeypatch.setattr(writer_thread, "PENDING_MAX", 4)

    async def work() -> None:
        async with await aio.open(url) as store:
            waiting = [asyncio.ensure_future(store.append("order/1", event(number))) for number in range(200)]
            await asyncio.sleep(0)
            assert len(store._committer._queue) <= 4
            done = await asyncio.gather(*waiting)
            assert sorted(item.position for item in done) == list(range(1, 201))

    run(work())


def test_a_group_is_bounded(run: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-07: more than a group's worth of appends is committed in several groups, in order."""
    monkeypatch.setattr(writer_thread, "GROUP_REQUESTS_MAX", 3)

    async def work() -> None:
        async with await aio.open(url) as store:
            done = await asyncio.gather(*(store.append("order/1", event(number)) for number in range(100)))
            assert [item.position for item in done] == list(range(1, 101))

    run(work())
