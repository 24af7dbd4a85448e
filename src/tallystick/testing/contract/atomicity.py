"""Contract: a commit happens whole or not at all. Requests that are committed together succeed or fail on their own."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import ANY, NO_STREAM, NewEvent, Store, errors
from tallystick.store.capabilities import ANY_STREAM, MULTI_STREAM
from tallystick.store.commit import Appended, Outcome
from tallystick.store.prepare import Part, Request
from tallystick.testing.builders import event, events, named
from tallystick.testing.contract.harness import Contract, needs


def _request(stream: str, *new: NewEvent, expected: int = ANY) -> Request:
    return Request([Part(stream, list(new), expected)])


def _names(outcomes: list[Outcome]) -> list[str]:
    return [type(found).__name__ if isinstance(found, Exception) else "done" for found in outcomes]


BAD_PARTS: dict[str, tuple[Any, ...]] = {
    "conflict": ("order/b", [event()], 7),
    "bad payload": ("order/b", [event(), NewEvent("thing.happened", {"x": float("nan")})], ANY),
    "bad name": ("order/ b", [event()], ANY),
    "reserved": ("tally.store/settings", [event()], ANY),
    "no events": ("order/b", [], ANY),
    "used id": ("order/b", [named(1)], ANY),
    "org": ("order/old", [event(meta={"org": "other"})], ANY),
}


class AtomicityContract(Contract):
    """All or nothing."""

    def test_one_bad_event_refuses_the_whole_append(self, store: Store) -> None:
        """CP-05: if one event of an append is refused, wherever it is, none is stored."""
        for place in range(3):
            new = events(3)
            new[place] = NewEvent("thing.happened", {"x": float("inf")})
            with pytest.raises(errors.NotCanonical):
                store.append("run/a", new)
        assert (store.head(), store.stream_head("run/a")) == (0, None)

    @needs(ANY_STREAM, MULTI_STREAM)
    def test_several_streams_commit_together(self, store: Store) -> None:
        """CP-05: append_all writes every part, in the order given, and returns the position of each."""
        done = store.append_all([("order/b", events(2), NO_STREAM), ("order/a", events(1), NO_STREAM)])
        assert [(found.stream, found.first_seq, found.last_seq) for found in done] == [
            ("order/b", 1, 2),
            ("order/a", 1, 1),
        ]
        assert [(found.stream, found.seq) for found in store.read().events] == [
            ("order/b", 1),
            ("order/b", 2),
            ("order/a", 1),
        ]

    @needs(ANY_STREAM, MULTI_STREAM)
    @pytest.mark.parametrize("bad", BAD_PARTS.values(), ids=BAD_PARTS.keys())
    @pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
    def test_one_bad_part_refuses_the_whole_commit(self, store: Store, bad: tuple[Any, ...], first: bool) -> None:
        """CP-05: if one part is refused, for any reason, nothing of the others is stored."""
        store.append("order/old", [named(1, meta={"org": "acme"})])
        head, streams = store.head(), store.streams()
        good: tuple[Any, ...] = ("order/a", events(2), NO_STREAM)
        with pytest.raises(errors.TallyError):
            store.append_all([bad, good] if first else [good, bad])
        assert (store.head(), store.streams()) == (head, streams)

    @needs(ANY_STREAM, MULTI_STREAM)
    def test_a_stream_may_stand_twice_in_a_commit(self, store: Store) -> None:
        """The second part of a stream sees what the first wrote."""
        store.append_all([("order/a", [event(1)], 0), ("order/b", [event(2)], 0), ("order/a", [event(3)], 1)])
        assert [found.data["n"] for found in store.read_stream("order/a")] == [1, 3]
        with pytest.raises(errors.Conflict) as refused:
            store.append_all([("order/a", [event(4)], 2), ("order/a", [event(5)], 2)])
        assert refused.value.actual == 3
        assert len(store.read_stream("order/a")) == 2

    @needs(ANY_STREAM)
    def test_requests_of_a_group_are_judged_each_on_its_own(self, store: Store) -> None:
        """LH-07: refused requests leave no trace, do not stop the others, and outcomes are in the order asked."""
        store.append("order/old", named(1, meta={"org": "acme"}))
        outcomes = store.submit(
            [
                _request("order/a", *events(2), expected=NO_STREAM),
                _request("order/a", event(), expected=NO_STREAM),
                _request("order/!", event()),
                _request("order/b", NewEvent("thing.happened", {"x": b"bytes"})),
                _request("order/old", event(meta={"org": "other"})),
                _request("order/c", named(1)),
                _request("order/a", event(3), expected=2),
            ]
        )
        refused = ["Conflict", "InvalidName", "NotCanonical", "OrgMismatch", "DuplicateId"]
        assert _names(outcomes) == ["done", *refused, "done"]
        assert [info.stream for info in store.streams()] == ["order/a", "order/old"]
        assert [found.data["n"] for found in store.read_stream("order/a")] == [1, 2, 3]

    def test_a_group_sees_what_stood_before_in_it(self, store: Store) -> None:
        """A retry inside one group is confirmed and not written twice; an expectation sees the group's own events."""
        outcomes = store.submit(
            [
                _request("run/a", named(1), expected=NO_STREAM),
                _request("run/a", named(1), expected=NO_STREAM),
                _request("run/a", named(2, id=1)),
                _request("run/a", named(3), expected=1),
            ]
        )
        assert _names(outcomes) == ["done", "done", "DuplicateId", "done"]
        first, again = outcomes[0], outcomes[1]
        assert isinstance(first, list)
        assert isinstance(again, list)
        assert (first[0].link, again[0].stored) == (again[0].link, 1)
        assert [found.data["n"] for found in store.read_stream("run/a")] == [1, 3]

    def test_a_refused_transaction_gives_back_its_numbers(self, store: Store) -> None:
        """EVT-01: sequences have no gap where a request of a group was refused."""
        outcomes = store.submit([_request("run/a", event(n), expected=ANY if n % 2 else 99) for n in range(6)])
        assert _names(outcomes) == ["Conflict", "done"] * 3
        assert [found.seq for found in store.read_stream("run/a")] == [1, 2, 3]

    def test_an_empty_group_does_nothing(self, store: Store) -> None:
        """A group of no requests has no outcomes; a request of no parts is refused."""
        assert store.submit([]) == []
        assert _names(store.submit([Request([]), _request("run/a", event())])) == ["InvalidValue", "done"]
        with pytest.raises(errors.InvalidValue):
            store.append_all([])

    def test_outcomes_are_results_and_not_copies_of_the_request(self, store: Store) -> None:
        """Each outcome that is not an error is a list of Appended, one per part."""
        outcome = store.submit([_request("run/a", event())])[0]
        assert isinstance(outcome, list)
        assert [type(item) for item in outcome] == [Appended]
