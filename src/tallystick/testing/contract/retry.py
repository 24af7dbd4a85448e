"""Contract: an append with ids can be retried after any outcome, and its events are stored exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NO_STREAM, NewEvent, Store, errors
from tallystick.store.capabilities import ANY_STREAM, MULTI_STREAM
from tallystick.testing.builders import event, event_id, named
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

OTHER_CONTENT: dict[str, dict[str, Any]] = {
    "payload": {"payload": {"n": 2}},
    "type": {"type": "thing.undone"},
    "version": {"version": 2},
    "meta": {"meta": {"app": "b"}},
    "no meta": {"meta": None},
    "time": {"time": 6},
}


class RetryContract(Contract):
    """Retry by id."""

    def test_a_retry_returns_the_stored_result_and_writes_nothing(self, store: Store) -> None:
        """The same events with the same ids give the same seqs, positions and link, counted as stored."""
        wanted = [named(1), named(2)]
        first = store.append("run/a", wanted)
        store.append("run/a", event())
        head = store.head()
        again = store.append("run/a", wanted)
        assert (again.first_seq, again.last_seq, again.link) == (first.first_seq, first.last_seq, first.link)
        assert (again.first_position, again.last_position) == (first.first_position, first.last_position)
        assert (first.stored, again.stored) == (0, 2)
        assert store.head() == head

    def test_a_retry_comes_before_the_expectation(self, store: Store) -> None:
        """A stored append is confirmed, although the stream is past what it expected."""
        store.append("run/a", named(1), expected=NO_STREAM)
        store.append("run/a", event())
        for expected in (NO_STREAM, 1, 2, 99):
            assert store.append("run/a", named(1), expected=expected).last_seq == 1
        assert len(store.read_stream("run/a")) == 2

    def test_a_retry_without_a_time_is_the_same_event(self, harness: EngineHarness) -> None:
        """A time that the clock filled in was not given by the author, so a later retry still matches."""
        clock = ManualClock()
        store = harness.open(clock=clock)
        store.append("run/a", named(1))
        clock.advance(seconds=60)
        assert store.append("run/a", named(1)).stored == 1

    @pytest.mark.parametrize("changed", OTHER_CONTENT.values(), ids=OTHER_CONTENT.keys())
    def test_an_id_with_other_content_is_refused(self, store: Store, changed: dict[str, Any]) -> None:
        """An id names one event permanently. Another payload, type, version, meta or time is DuplicateId."""
        original: dict[str, Any] = {
            "type": "thing.happened",
            "payload": {"n": 1},
            "version": 1,
            "meta": {"app": "a"},
            "time": 5,
        }
        store.append("run/a", NewEvent(**original, id=event_id(1)))
        head = store.head()
        with pytest.raises(errors.DuplicateId) as refused:
            store.append("run/a", NewEvent(**(original | changed), id=event_id(1)))
        assert refused.value.id.replace("-", "") == event_id(1).hex()
        assert store.head() == head

    @needs(ANY_STREAM)
    def test_an_id_in_another_stream_is_refused(self, store: Store) -> None:
        """The same event in another stream is another event."""
        store.append("order/a", named(1))
        with pytest.raises(errors.DuplicateId):
            store.append("order/b", named(1))
        assert store.stream_head("order/b") is None

    def test_an_id_twice_in_one_append_is_refused(self, store: Store) -> None:
        """One append cannot hold an id twice, with the same or other content. The error names the id."""
        for second in (named(1), named(2, id=1)):
            with pytest.raises(errors.DuplicateId) as refused:
                store.append("run/a", [named(1), second])
            assert refused.value.id.replace("-", "") == event_id(1).hex()
        assert store.head() == 0

    @needs(ANY_STREAM, MULTI_STREAM)
    def test_an_id_twice_in_one_commit_is_refused(self, store: Store) -> None:
        """The same holds for one commit over two streams."""
        with pytest.raises(errors.DuplicateId):
            store.append_all([("order/a", [named(1)], NO_STREAM), ("order/b", [named(1)], NO_STREAM)])
        assert store.head() == 0

    def test_a_stored_prefix_is_confirmed_and_the_rest_written(self, store: Store) -> None:
        """If the first events of an append are stored at the end of the stream, the others are added after them."""
        store.append("run/a", event(), expected=0)
        store.append("run/a", [named(1), named(2)], expected=1)
        done = store.append("run/a", [named(1), named(2), named(3), named(4)], expected=1)
        assert (done.first_seq, done.last_seq, done.stored) == (2, 5, 2)
        assert [found.data["n"] for found in store.read_stream("run/a", after=1)] == [1, 2, 3, 4]

    @pytest.mark.parametrize("expected", [0, 1, 2, 3])
    def test_a_stored_prefix_that_is_not_the_end_is_a_conflict(self, store: Store, expected: int) -> None:
        """If others have appended since, the rest of a half-stored append matches no exact expectation."""
        store.append("run/a", [named(1), named(2)])
        store.append("run/a", [event(8), event(9)])
        with pytest.raises(errors.Conflict) as refused:
            store.append("run/a", [named(1), named(2), named(3)], expected=expected)
        assert refused.value.actual == 4
        assert len(store.read_stream("run/a")) == 4

    def test_a_stored_event_behind_a_new_one_is_refused(self, store: Store) -> None:
        """New events cannot be put before stored ones, and stored events cannot be made adjacent if they are not."""
        store.append("run/a", [named(1), named(2), named(3)])
        for wrong in ([named(4), named(1)], [named(1), named(3)], [named(2), named(1)]):
            with pytest.raises(errors.DuplicateId):
                store.append("run/a", wrong)
        assert len(store.read_stream("run/a")) == 3

    @needs(ANY_STREAM, MULTI_STREAM)
    def test_a_whole_commit_can_be_retried(self, store: Store) -> None:
        """CP-05: a retry of append_all confirms every part and writes nothing."""
        parts = [("order/a", [named(1)], NO_STREAM), ("order/b", [named(2), named(3)], NO_STREAM)]
        first, head = store.append_all(parts), store.head()
        again = store.append_all(parts)
        assert [done.link for done in again] == [done.link for done in first]
        assert [done.stored for done in again] == [1, 2]
        assert store.head() == head
