"""Following with tasks: what is appended later, filters, cancelling, and many followers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallystick import aio, errors, select
from tallystick.aio import async_store
from tallystick.testing.builders import event, events


def test_a_follower_sees_what_is_appended_later(run: Any, url: str) -> None:
    """LH-15: `follow` gives what is there and then what comes, each event once, in order."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", events(1500))
            seen: list[int] = []
            caught_up = asyncio.Event()

            async def follow() -> None:
                async for item in store.follow(after=2):
                    seen.append(item.position)
                    if item.position in (1500, 1601):
                        caught_up.set()
                    if item.position == 1601:
                        return

            follower = asyncio.ensure_future(follow())
            await caught_up.wait()
            caught_up.clear()
            for _ in range(100):
                await store.append("order/1", event())
            await store.append("order/2", event())
            await follower
            assert seen == list(range(3, 1602))

    run(work())


def test_a_follower_with_a_filter_gets_past_what_it_does_not_want(run: Any, url: str) -> None:
    """LH-15: events that do not fit are stepped over and not waited for again."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", events(1100, type="order.placed"))
            following = store.follow(selection=select(type="order.paid"))
            wanted = asyncio.ensure_future(anext(following))
            await store.append("order/1", events(1100, type="order.placed"))
            await store.append("order/1", event(type="order.paid"))
            assert (await wanted).position == 2201
            await following.aclose()

    run(work())


def test_a_cancelled_follower_leaves_the_store_in_use(run: Any, url: str) -> None:
    """LH-15: a follower that waits can be cancelled; the store goes on and closes."""

    async def work() -> None:
        async with await aio.open(url) as store:
            reached = asyncio.Event()

            async def follow() -> None:
                async for _ in store.follow():
                    reached.set()

            follower = asyncio.ensure_future(follow())
            await store.append("order/1", event())
            await reached.wait()
            follower.cancel()
            with pytest.raises(asyncio.CancelledError):
                await follower
            assert (await store.append("order/1", event())).seq == 2

    run(work())


def test_more_followers_than_threads_all_see_an_event(run: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-15: waiting followers share a thread, so that hundreds of them leave room for readers and for each other."""
    monkeypatch.setattr(async_store, "FOLLOW_SECONDS", 20.0)

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", event())
            followings = [store.follow() for _ in range(200)]
            await asyncio.gather(*(anext(following) for following in followings))
            waiting = [asyncio.ensure_future(anext(following)) for following in followings]
            for _ in range(10):  # let all of them get to the point where they wait
                assert await store.head() == 1
            await store.append("order/1", event())
            found = await asyncio.gather(*waiting)
            assert {item.position for item in found} == {2}
            for following in followings:
                await following.aclose()

    run(work())


def test_followers_that_are_ahead_hold_up_nobody(run: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-15: one who waits for a position far ahead does not make others wait for it."""
    monkeypatch.setattr(async_store, "FOLLOW_SECONDS", 3.0)

    async def work() -> None:
        async with await aio.open(url) as store:
            ahead = store.follow(after=1000)
            far = asyncio.ensure_future(anext(ahead))
            near = asyncio.ensure_future(anext(store.follow()))
            await store.head()
            await store.append("order/1", events(1000))
            assert (await near).position == 1
            assert not far.done()
            await store.append("order/1", event())
            assert (await far).position == 1001

    run(work())


def test_a_follower_is_told_that_the_store_was_closed(run: Any, url: str) -> None:
    """LH-15: closing ends those who follow with StoreClosed instead of leaving them waiting."""

    async def work() -> None:
        store = await aio.open(url)
        await store.append("order/1", event())
        following = store.follow()
        assert (await anext(following)).position == 1
        waiting = asyncio.ensure_future(anext(following))
        await store.head()
        await store.close()
        with pytest.raises(errors.StoreClosed):
            await waiting

    run(work())


# --- cancelling ----------------------------------------------------------------------------------------------------
