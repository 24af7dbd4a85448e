"""Tags, consultations and conditions for tasks: as the store has them, also among appends that share a commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tallystick
from tallystick import Marker, NewEvent, Query, aio, errors, match

NAME = match(tags=["name:ada"])


def opened(number: int = 0, *tags: str) -> NewEvent:
    """An event with tags."""
    return NewEvent("account.opened", {"n": number}, tags=tags or ["name:ada"])


def test_a_task_consults_decides_and_appends(run: Any, url: str) -> None:
    """TAG-02: a marker that saw everything admits an append; the one from before it does not."""

    async def work() -> None:
        async with await aio.open(url) as store:
            before = await store.consult(NAME)
            await store.append("account/1", opened(), unless=before.marker)
            seen = await store.consult(NAME, after=0, org=None, over_pruned=False)
            assert [event.tags for event in seen.events] == [("name:ada",)]
            for unless in (before.marker, NAME):
                with pytest.raises(errors.ConditionFailed):
                    await store.append("account/2", opened(), unless=unless)
                with pytest.raises(errors.ConditionFailed):
                    await store.append_batch("account/2", [opened()], unless=unless)
                with pytest.raises(errors.ConditionFailed):
                    await store.append_all([("account/2", [opened()], -1), ("a/1", [opened()], -1)], unless=unless)
            assert await store.head() == 1
            await store.append_all([("account/2", [opened(1, "x:1")], 0)], unless=seen.marker)

    run(work())


def test_of_many_tasks_that_claim_a_name_one_gets_it(run: Any, url: str) -> None:
    """TAG-02: tasks whose appends share commits are judged one after the other; the others are not harmed."""

    async def work() -> None:
        async with await aio.open(url) as store:
            rivals = [store.append(f"account/{number}", opened(number), unless=NAME) for number in range(40)]
            plain = [store.append(f"order/{number}", NewEvent("order.made", {})) for number in range(40)]
            done = await asyncio.gather(*rivals, *plain, return_exceptions=True)
            refused = [each for each in done if isinstance(each, BaseException)]
            assert [type(each) for each in refused] == [errors.ConditionFailed] * 39
            assert len(set(map(id, refused))) == 39
            assert await store.head() == 41
            assert len((await store.consult(NAME)).events) == 1

    run(work())


def test_a_cancelled_append_is_whole_and_a_retry_decides_again(run: Any, url: str) -> None:
    """TAG-02: a task that is cancelled may have appended: with the same ids a retry is confirmed, or it is judged."""

    async def work() -> None:
        async with await aio.open(url) as store:
            given = [NewEvent("account.opened", {"n": n}, tags=["name:ada"], id=bytes([n]) * 16) for n in (1, 2)]
            for _ in range(20):
                task = asyncio.ensure_future(store.append("account/1", given, unless=NAME))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            done = await store.append("account/1", given, unless=NAME)
            assert (done.first_seq, done.last_seq) == (1, 2)
            assert await store.head() == 2
            reading = asyncio.ensure_future(store.consult(NAME))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert len((await store.consult(NAME)).events) == 2

    run(work())


@pytest.mark.parametrize("unless", ["x", 7, [], Marker(match(), 99), Marker(match(), "x"), match])
def test_a_bad_condition_is_refused_by_name(run: Any, unless: Any) -> None:
    """TAG-02: whatever is handed in, the answer is a typed error, as from the store itself, and nothing is written."""

    async def work() -> None:
        async with await aio.open("memory:") as store:
            with pytest.raises(errors.InvalidInput):
                await store.append("order/1", opened(), unless=unless)
            with pytest.raises(errors.InvalidInput):
                await store.consult("x")
            with pytest.raises(errors.InvalidInput):
                await store.consult(Query(()))
            assert await store.head() == 0

    run(work())


def test_followers_select_by_tags(run: Any, url: str) -> None:
    """TAG-01: a follower gets the events that have all the tags, as they are appended."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("account/1", [opened(1, "a:1", "b:1"), opened(2, "a:1"), opened(3, "b:1", "a:1")])
            found = []
            async for event in store.follow(selection=tallystick.select(tags=["a:1", "b:1"])):
                found.append(event.data["n"])
                if event.data["n"] == 3:
                    await store.append("account/2", [opened(4, "b:1"), opened(5, "a:1", "b:1", "c:1")])
                if event.data["n"] == 5:
                    break
            assert found == [1, 3, 5]

    run(work())
