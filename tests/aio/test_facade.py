"""The async store does what the store does: every method, on every engine."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from tallystick import NO_STREAM, aio, errors, select
from tallystick.event.model import Event
from tallystick.store.prepare import Part
from tallystick.store.store import Store
from tallystick.testing.builders import event, events, named

OUR_OWN = {"record", "resume"}  # what only our own layers call
NO_WORD_FOR_IT = {"append_batch", "create_snapshot", "fold", "follow", "get_events", "get_events_by_type"} | {
    "replay_from",
    "restore_from_snapshot",
    "waiting",
}


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_async_store_has_the_same_names() -> None:
    """What a store does is found under its name here too, with the same arguments."""
    assert _public(Store) - _public(aio.AsyncStore) == OUR_OWN
    assert _public(aio.AsyncStore) - _public(Store) == NO_WORD_FOR_IT
    for name in sorted(_public(Store) & _public(aio.AsyncStore) - {"submit"}):
        ours, theirs = (list(signature(getattr(kind, name)).parameters) for kind in (aio.AsyncStore, Store))
        assert ours == theirs, name


async def collected(items: Any) -> list[Event]:
    """Everything that an async iterator gives."""
    return [item async for item in items]


def test_an_append_says_where_it_stands(run: Any, url: str) -> None:
    """LH-15: append answers with seq and position, for one event and for a list."""

    async def work() -> None:
        async with await aio.open(url) as store:
            first = await store.append("order/1", event(1))
            assert (first.stream, first.seq, first.position) == ("order/1", 1, 1)
            more = await store.append("order/1", events(3), expected=1)
            assert (more.first_seq, more.last_seq, more.last_position) == (2, 4, 4)
            with pytest.raises(errors.Conflict) as refused:
                await store.append("order/1", event(), expected=NO_STREAM)
            assert refused.value.values == {"stream": "order/1", "expected": 0, "actual": 4}

    run(work())


def test_a_batch_is_one_append(run: Any, url: str) -> None:
    """LH-15: append_batch puts all events into the stream next to each other, or none."""

    async def work() -> None:
        async with await aio.open(url) as store:
            done = await store.append_batch("order/1", events(500))
            assert (done.first_seq, done.last_seq) == (1, 500)
            with pytest.raises(errors.InvalidInput):
                await store.append_batch("order/1", [*events(5), event(type="not a type")])
            assert await store.head() == 500

    run(work())


def test_several_streams_go_in_together_or_not_at_all(run: Any, url: str) -> None:
    """LH-15: append_all is all or nothing, and takes tuples and parts."""

    async def work() -> None:
        async with await aio.open(url) as store:
            done = await store.append_all([("order/1", events(2), 0), Part("cart/1", events(1))])
            assert [(item.stream, item.last_position) for item in done] == [("order/1", 2), ("cart/1", 3)]
            with pytest.raises(errors.Conflict):
                await store.append_all([("cart/1", events(1), -1), ("order/1", events(1), 7)])
            with pytest.raises(errors.InvalidValue):
                await store.append_all([])
            assert await store.head() == 3

    run(work())


def test_a_retry_with_the_same_id_writes_nothing(run: Any, url: str) -> None:
    """LH-15: a task that does not know what became of its append asks again with the same event ids."""

    async def work() -> None:
        async with await aio.open(url) as store:
            first = await store.append("order/1", named(1), expected=0)
            again = await store.append("order/1", named(1), expected=0)
            assert (again.position, again.link, again.stored) == (first.position, first.link, 1)
            assert await store.head() == 1

    run(work())


def test_events_of_a_time_range_are_found(run: Any, url: str) -> None:
    """LH-15: get_events takes the start in and leaves the end out, in order of position and not of time."""

    async def work() -> None:
        async with await aio.open(url) as store:
            for time in (30, 10, 20, 40):
                await store.append("order/1", event(time, time=time))
            found = await collected(store.get_events(10, 40))
            assert [item.time for item in found] == [30, 10, 20]
            assert await collected(store.get_events(41, 50)) == []

    run(work())


def test_events_of_a_type_are_found(run: Any, url: str) -> None:
    """LH-15: get_events_by_type gives one type's events of every stream, over more than a page."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", events(1200, type="order.placed"))
            await store.append("order/2", events(1200, type="order.paid"))
            await store.append("order/3", events(1, type="order.placed"))
            found = await collected(store.get_events_by_type("order.placed"))
            assert [item.position for item in found] == [*range(1, 1201), 2401]

    run(work())


def test_replay_begins_with_the_event_that_was_named(run: Any, url: str) -> None:
    """LH-15: replay_from gives that event and all behind it; an unknown id is an error and not an empty replay."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", [named(number) for number in range(1, 1500)])
            found = await collected(store.replay_from(named(7).id))
            assert [item.position for item in found] == list(range(7, 1500))
            with pytest.raises(errors.InvalidValue):
                await collected(store.replay_from(named(9999).id))

    run(work())


def test_reading_agrees_with_the_store_itself(run: Any, url: str) -> None:
    """LH-15: read, read_stream, find, head and stream_head say what the store itself says."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append_all([("order/1", events(30), -1), ("cart/1", [named(1)], -1)])
            only = select(stream="order/1")
            asked = {"after": 3, "until": 25, "selection": only, "limit": 7}
            assert await store.read(**asked) == store.store.read(**asked)
            assert await store.read_stream("order/1", after=2, until=9, limit=5) == store.store.read_stream(
                "order/1", after=2, until=9, limit=5
            )
            found = await store.find(named(1).id)
            assert found is not None
            assert found == store.store.find(named(1).id)
            assert await store.find(named(2).id) is None
            assert await store.head() == 31
            assert await store.stream_head("cart/1") == store.store.stream_head("cart/1")
            assert await store.stream_head("cart/2") is None

    run(work())


def test_listing_ends_at_the_head_of_its_beginning(run: Any, url: str) -> None:
    """LH-15: `events` gives what was there when it was asked, in pages, and does not chase a writer."""

    async def work() -> None:
        async with await aio.open(url) as store:
            await store.append("order/1", events(2500))
            seen = []
            async for item in store.events(after=10):
                if not seen:
                    await store.append("order/1", event())
                seen.append(item.position)
            assert seen == list(range(11, 2501))
            assert [item.position async for item in store.events(after=5, until=7)] == [6, 7]

    run(work())


@pytest.mark.parametrize("given", [5, None, "text", {"a": 1}, [], [1]])
def test_what_is_no_event_is_refused_by_name(run: Any, given: Any) -> None:
    """LH-15: whatever is handed in as events, the answer is a typed error, as from the store itself."""

    async def work() -> None:
        async with await aio.open("memory:") as store:
            with pytest.raises(errors.InvalidValue):
                await store.append("order/1", given)

    run(work())


def test_a_read_only_store_refuses_appends_and_reads(run: Any, durable_url: str) -> None:
    """LH-15: opened for reading, it reads; an append is ReadOnly."""

    async def work() -> None:
        async with await aio.open(durable_url) as store:
            await store.append("order/1", event())
        async with await aio.open(durable_url, readonly=True) as store:
            assert await store.head() == 1
            with pytest.raises(errors.ReadOnly):
                await store.append("order/1", event())

    run(work())


class Counter:
    """Counts the events of the whole store."""

    name, version, scope = "counter", 1, "store"

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, value: dict[str, int], event: Event) -> dict[str, int]:
        """One more."""
        return {"events": value["events"] + 1}


def test_a_snapshot_of_the_store_is_made_and_restored(run: Any, url: str) -> None:
    """LH-15: create_snapshot covers every registered reducer at one position, restore_from_snapshot gives it back."""

    async def work() -> None:
        async with await aio.open(url, reducers=[Counter]) as store:
            await store.append("order/1", events(3))
            made = await store.create_snapshot()
            await store.append("order/1", events(2))
            restored = await store.restore_from_snapshot(made)
            assert (restored.position, restored.states) == (3, {"counter": {"events": 3}})
            assert (await store.fold(Counter)).value == {"events": 5}

    run(work())
