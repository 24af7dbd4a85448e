"""Contract: reading by position and by stream, page after page, without missing anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tallystick import NO_STREAM, Event, Store, errors
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER
from tallystick.store.events import PAGE_EVENTS
from tallystick.testing.builders import event, event_id, events, named
from tallystick.testing.clock import SECOND, START, ManualClock
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _pages(store: Store, *, limit: int) -> Iterator[Event]:
    after = 0
    while after < store.head():
        page = store.read(after=after, limit=limit)
        assert after < page.through
        assert len(page.events) <= limit
        yield from page.events
        after = page.through


def _filled(store: Store) -> list[Event]:
    for number in range(12):
        store.append(f"order/{number % 3}", events(2, first=2 * number))
    return store.read().events


class ReadContract(Contract):
    """read, read_stream, find, heads, listings, waiting."""

    @needs(ANY_STREAM, GLOBAL_ORDER)
    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 23, 24, 25, 1000])
    def test_pages_of_any_size_show_every_event_once(self, store: Store, limit: int) -> None:
        """CP-09: continuing after `through` gives the whole log, ascending, whatever the page size."""
        whole = _filled(store)
        assert [found.data["n"] for found in whole] == list(range(24))
        assert list(_pages(store, limit=limit)) == whole

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_a_reader_that_names_no_place_begins_with_the_first_event(self, store: Store) -> None:
        """CP-09: of the log and of a stream."""
        whole = _filled(store)
        assert store.log.read().events == whole
        assert store.log.read_stream("order/0", limit=1) == whole[:1]

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_after_is_exclusive_and_until_inclusive(self, store: Store) -> None:
        """CP-09: a window holds the events with after < position <= until, and `through` never passes until."""
        whole = _filled(store)
        for low, high in ((0, 24), (3, 9), (9, 9), (23, 24), (0, 1)):
            after = whole[low - 1].position if low else 0
            page = store.read(after=after, until=whole[high - 1].position)
            assert page.events == whole[low:high]
            assert page.through == whole[high - 1].position

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_an_empty_window_is_an_empty_page(self, store: Store) -> None:
        """A read at the head, past it, or with until before after, gives nothing and `through` does not go back."""
        whole = _filled(store)
        head = store.head()
        assert (store.read(after=head).events, store.read(after=head).through) == ([], head)
        assert store.read(after=head + 100).events == []
        assert store.read(after=head + 100).through == head + 100
        backwards = store.read(after=whole[9].position, until=whole[3].position)
        assert (backwards.events, backwards.through) == ([], whole[9].position)

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_through_reaches_the_head(self, store: Store) -> None:
        """A page that was not full ends at the head, so that a reader's lag becomes 0."""
        _filled(store)
        assert store.read(until=store.head() + 50).through == store.head()
        assert store.read().through == store.head()

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_events_is_every_page_in_one(self, store: Store) -> None:
        """`events()` gives the whole log, or a window of it."""
        whole = _filled(store)
        assert list(store.events()) == whole
        assert list(store.events(after=whole[4].position, until=whole[9].position)) == whole[5:10]

    def test_a_stream_is_read_by_seq(self, store: Store) -> None:
        """read_stream gives the events with after < seq <= until, at most `limit`."""
        store.append("run/a", events(10))
        for after, until, limit in (
            (0, None, 1000),
            (3, None, 1000),
            (0, 4, 1000),
            (3, 7, 2),
            (9, 99, 5),
            (10, None, 1),
        ):
            found = [item.seq for item in store.read_stream("run/a", after=after, until=until, limit=limit)]
            assert found == [seq for seq in range(1, 11) if after < seq <= (until or 99)][:limit]
        assert store.read_stream("run/a", after=5, until=3) == []
        assert store.read_stream("run/a", until=0) == []

    def test_a_stream_that_is_not_there_is_empty(self, store: Store) -> None:
        """Reading a stream that does not exist gives no events and no head."""
        store.append("run/a", event())
        assert (store.read_stream("run/b"), store.stream_head("run/b")) == ([], None)

    def test_names_that_begin_alike_are_different_streams(self, store: Store) -> None:
        """Streams are distinguished by their whole name, including wildcards and separators."""
        names = ["run/a", "run/aa", "run/a_", "run/a-a", "run/a.a", "run/a:b", "run/a=b", "run/a+b", "run/a@b"]
        for number, name in enumerate(names):
            store.append(name, event(number))
        assert [[item.data["n"] for item in store.read_stream(name)] for name in names] == [[n] for n in range(9)]

    @needs(ANY_STREAM)
    def test_names_that_differ_in_case_are_different_streams(self, store: Store) -> None:
        """Upper and lower case are different, also if a file system folds them."""
        for number, name in enumerate(("order/a", "order/A", "order/aB", "order/Ab")):
            store.append(name, event(number))
        assert [info.stream for info in store.streams()] == ["order/A", "order/Ab", "order/a", "order/aB"]
        assert [store.read_stream(name)[0].data["n"] for name in ("order/A", "order/a")] == [1, 0]

    def test_find_gives_the_event_of_an_id(self, store: Store) -> None:
        """An event is found by its id as bytes, UUID or text; an unknown id gives None."""
        store.append("run/a", [named(1), named(2)])
        found = store.find(event_id(2))
        assert found is not None
        assert (found.seq, found.data) == (2, {"n": 2})
        assert store.find(found.uuid) == store.find(str(found.uuid)) == store.find(found.id.hex()) == found
        assert store.find(event_id(3)) is None

    def test_the_head_of_a_stream_is_its_last_event(self, store: Store) -> None:
        """stream_head gives the last seq and the link there."""
        for count in (1, 4):
            store.append("run/a", events(count))
            last = store.read_stream("run/a")[-1]
            head = store.stream_head("run/a")
            assert head is not None
            assert (head.seq, head.link) == (last.seq, last.link)

    @needs(ANY_STREAM)
    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_streams_are_listed_by_name_in_pages(self, store: Store, limit: int) -> None:
        """The listing is in order of name by code point, with the seq, link and org of each, and can be paged."""
        expected = ["a.b/1", "a/1", "a/10", "a/2", "b-c/x", "b/Z", "b/a"]
        for number, name in enumerate(reversed(expected)):
            store.append(name, events(number + 1, meta={"org": f"o{number}"}))
        listed, after = [], ""
        while page := store.streams(after=after, limit=limit):
            assert len(page) <= limit
            listed += page
            after = page[-1].stream
        assert [info.stream for info in listed] == expected
        for info in listed:
            head = store.stream_head(info.stream)
            assert head is not None
            assert (info.seq, info.link, info.org) == (head.seq, head.link, head.org)

    def test_the_recording_time_is_the_stores_own(self, harness: EngineHarness) -> None:
        """recorded_at is the time of the store's clock at the commit, whatever time the event has."""
        clock = ManualClock()
        store = harness.open(clock=clock)
        first = store.append("run/a", event(time=1))
        clock.advance(seconds=5)
        second = store.append("run/a", [event(time=2), event()])
        assert store.log.recorded_at(first.position) == START
        assert store.log.recorded_at(second.first_position) == START + 5 * SECOND
        assert store.log.recorded_at(second.last_position) == START + 5 * SECOND
        assert store.log.recorded_at(second.last_position + 1) is None
        assert store.log.recorded_at(0) is None

    def test_waiting_ends_when_something_was_appended(self, store: Store) -> None:
        """wait() returns the new head as soon as it is past the given position."""
        heads: list[int] = []
        waiter = threading.Thread(target=lambda: heads.append(store.wait(0, timeout=60)))
        waiter.start()
        position = store.append("run/a", event()).position
        waiter.join(60)
        assert heads == [position]
        assert store.wait(0, timeout=60) == position

    def test_waiting_ends_when_the_time_is_over(self, store: Store) -> None:
        """wait() returns the old head if nothing was appended."""
        position = store.append("run/a", event()).position
        assert store.wait(position, timeout=0.01) == position

    def test_a_closed_store_says_so(self, store: Store) -> None:
        """After close() appends and reads raise StoreClosed, and closing again does no harm."""
        store.append("run/a", event())
        store.close()
        store.close()
        for use in (store.head, store.read, lambda: store.append("run/a", event()), lambda: store.read_stream("run/a")):
            with pytest.raises(errors.StoreClosed):
                use()

    def test_a_stream_is_read_whole(self, store: Store) -> None:
        """SAFE-05: without a limit everything is returned, however many pages that takes."""
        count = PAGE_EVENTS + 7
        store.append("run/a", events(count))
        assert len(store.read_stream("run/a")) == count
        assert [found.seq for found in store.stream("run/a", after=3)] == list(range(4, count + 1))
        assert len(store.read_stream("run/a", until=count - 1)) == count - 1
        assert len(store.read_stream("run/a", limit=5)) == 5
        assert sum(1 for _ in store.events()) == count

    @needs(ANY_STREAM)
    def test_the_list_of_streams_is_whole(self, store: Store) -> None:
        """SAFE-05: streams are all listed, unless a limit is given."""
        count = PAGE_EVENTS + 7
        store.append_all([(f"order/{number:05}", [event(number)], NO_STREAM) for number in range(count)])
        assert len(store.streams()) == count
        assert len(store.streams(after="order/00099")) == count - 100
        assert len(store.streams(limit=5)) == 5
