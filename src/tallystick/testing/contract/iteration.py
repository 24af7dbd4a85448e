"""Contract: the verbs that read more than a page, or one event: forward and backward, also where events were pruned."""

from __future__ import annotations

import pytest

from tallystick import Event, Store, errors
from tallystick.store import iterate
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER, MAINTENANCE
from tallystick.store.events import PAGE_EVENTS
from tallystick.store.selection import select
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, needs


def _filled(store: Store) -> list[Event]:
    for number in range(12):
        store.append(f"order/{number % 3}", events(2, first=2 * number))
    return store.read().events


class IterationContract(Contract):
    """pages, events, stream, at, last."""

    @needs(ANY_STREAM, GLOBAL_ORDER)
    @pytest.mark.parametrize("limit", [1, 5, 23, 24, 1000])
    def test_pages_hold_every_event_once_and_end_at_the_head(self, store: Store, limit: int) -> None:
        """CP-09: each page holds at most `limit` events and continues where the one before it ended."""
        whole = _filled(store)
        pages = list(store.pages(limit=limit))
        assert [found for page in pages for found in page.events] == whole
        assert all(len(page.events) <= limit for page in pages)
        assert [page.through for page in pages] == sorted({page.through for page in pages})
        assert pages[-1].through == store.head()

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_pages_of_a_rare_selection_reach_the_end(self, store: Store) -> None:
        """A filter that lets nothing pass does not end the pages before `until`."""
        whole = _filled(store)
        until = whole[17].position
        pages = list(store.pages(until=until, selection=select(type="no.such"), limit=3))
        assert [found for page in pages for found in page.events] == []
        assert pages[-1].through == until

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_events_backward_are_the_same_events_the_other_way_round(self, store: Store) -> None:
        """Any window and any selection gives the same events in both directions."""
        whole = _filled(store)
        store.append("order/0", events(PAGE_EVENTS + 5))
        for after, until in ((0, None), (0, 10), (7, 19), (19, 7), (23, None), (5, 5), (0, 10_000)):
            for chosen in (select(), select(stream="order/1"), select(type="no.such")):
                forward = list(store.events(after=after, until=until, selection=chosen))
                backward = list(store.events(after=after, until=until, selection=chosen, backward=True))
                assert backward == forward[::-1]
        assert next(store.events(until=whole[-1].position, backward=True)) == whole[-1]

    @needs(MAINTENANCE, ANY_STREAM, GLOBAL_ORDER)
    def test_events_backward_give_what_is_left_before_they_refuse_what_was_pruned(self, store: Store) -> None:
        """EVT-03: every event that is left is returned, and its first one is not taken for the beginning of the log."""
        _filled(store)
        upkeep.prune(store, "order/1", 3)
        floor, found = store.floor(), []
        with pytest.raises(errors.HistoryPruned):
            for each in store.events(backward=True):
                found.append(each.position)
        assert found == [each.position for each in store.events(after=floor, backward=True)]
        assert found[-1] == floor + 1
        left = [each.position for each in store.events(over_pruned=True)]
        assert [each.position for each in store.events(over_pruned=True, backward=True)] == left[::-1]

    def test_a_stream_backward_is_the_same_stream_the_other_way_round(self, store: Store) -> None:
        """Any window of seqs, also over several pages."""
        store.append("run/a", events(2 * PAGE_EVENTS + 3))
        for after, until in ((0, None), (3, 1500), (1500, 3), (PAGE_EVENTS, None), (0, 10_000), (0, 1)):
            forward = list(store.stream("run/a", after=after, until=until))
            assert list(store.stream("run/a", after=after, until=until, backward=True)) == forward[::-1]
            assert [
                found for page in store.stream_pages("run/a", after=after, until=until) for found in page
            ] == forward
        assert list(store.stream("run/b", backward=True)) == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_pruned_stream_backward_is_refused_where_the_rest_begins(self, store: Store) -> None:
        """EVT-03: the events that are left come first, then the refusal that names the pruned seqs."""
        store.append("order/1", events(6))
        upkeep.prune(store, "order/1", 3)
        found = []
        with pytest.raises(errors.HistoryPruned):
            for each in store.stream("order/1", backward=True):
                found.append(each.seq)
        assert found == [6, 5, 4]
        assert [each.seq for each in store.stream("order/1", after=3, backward=True)] == [6, 5, 4]

    def test_one_event_by_its_seq(self, store: Store) -> None:
        """`at` gives one event, and None past the end, before the beginning and in another stream."""
        store.append("run/a", events(3))
        whole = store.read_stream("run/a")
        assert [store.at("run/a", seq) for seq in range(5)] == [None, *whole, None]
        assert store.at("run/b", 1) is None
        for seq in (-1, "1", None, 2**63):
            with pytest.raises(errors.InvalidValue):
                store.at("run/a", seq)  # type: ignore[arg-type]

    def test_the_newest_event_of_a_stream(self, store: Store) -> None:
        """`last` follows the stream. It is None if the stream does not exist."""
        assert store.last("run/a") is None
        for count in range(1, 4):
            store.append("run/a", event(count))
            newest = store.last("run/a")
            assert newest is not None
            assert (newest.seq, newest.data) == (count, {"n": count})

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_pruned_event_is_refused_by_name(self, store: Store) -> None:
        """EVT-03: `at` and `last` say that it was pruned; None would say that it never was."""
        store.append("order/1", events(4))
        upkeep.prune(store, "order/1", 4)
        with pytest.raises(errors.HistoryPruned):
            store.at("order/1", 4)
        with pytest.raises(errors.HistoryPruned):
            store.last("order/1")

    @needs(ANY_STREAM)
    def test_streams_of_a_kind_are_those_with_its_prefix(self, store: Store) -> None:
        """A prefix ends at its last stream, wherever the listing begins."""
        names = ["a/1", "ab/1", "ab/2", "ab/3", "abc/1", "b/1"]
        for name in names:
            store.append(name, event())
        assert [info.stream for info in iterate.streams(store.log, prefix="ab/")] == ["ab/1", "ab/2", "ab/3"]
        assert [info.stream for info in iterate.streams(store.log, prefix="ab/", after="ab/2")] == ["ab/3"]
        assert [info.stream for info in iterate.streams(store.log, after="ab/2")] == ["ab/3", "abc/1", "b/1"]

    @needs(ANY_STREAM)
    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
    def test_a_page_of_streams_is_full_unless_it_is_the_last(self, store: Store, limit: int) -> None:
        """A reader that gets fewer streams than it asked for has all of them."""
        names = [f"a/{number}" for number in range(5)]
        for name in names:
            store.append(name, event())
        found: list[str] = []
        while page := store.log.streams(after=found[-1] if found else "", limit=limit):
            found += [info.stream for info in page]
            assert len(page) == min(limit, len(page) + len(names) - len(found))
        assert found == names
