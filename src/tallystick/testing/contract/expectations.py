"""Contract: optimistic concurrency. A wrong expectation is a conflict with both numbers, and nothing is written."""

from __future__ import annotations

import pytest

from tallystick import ANY, NO_STREAM, Store, errors
from tallystick.store.capabilities import ANY_STREAM
from tallystick.store.commit import Transaction
from tallystick.store.prepare import Part, Request
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, needs


class ExpectationContract(Contract):
    """Exact seq, NO_STREAM, ANY."""

    def test_the_exact_seq_is_accepted(self, store: Store) -> None:
        """An append that expects the current seq of the stream is accepted, again and again."""
        for seq in range(4):
            assert store.append("run/a", event(seq), expected=seq).seq == seq + 1

    def test_no_stream_is_accepted_once(self, store: Store) -> None:
        """NO_STREAM creates a stream, and refuses one that exists."""
        assert store.append("run/a", events(2), expected=NO_STREAM).seq == 2
        with pytest.raises(errors.Conflict) as refused:
            store.append("run/a", event(), expected=NO_STREAM)
        assert (refused.value.expected, refused.value.actual) == (0, 2)

    def test_any_is_always_accepted(self, store: Store) -> None:
        """ANY appends to a new or an existing stream, and is the default."""
        assert store.append("run/a", event(), expected=ANY).seq == 1
        assert store.append("run/a", event(), expected=ANY).seq == 2
        assert store.append("run/a", event()).seq == 3

    @pytest.mark.parametrize("expected", [0, 1, 2, 4, 5, 1 << 62, (1 << 63) - 1])
    def test_a_wrong_seq_is_a_conflict_with_both_numbers(self, store: Store, expected: int) -> None:
        """The conflict names the stream, the expected seq and the actual one. The stream does not change."""
        store.append("run/a", events(3))
        before = store.stream_head("run/a")
        with pytest.raises(errors.Conflict) as refused:
            store.append("run/a", event(), expected=expected)
        assert (refused.value.stream, refused.value.expected, refused.value.actual) == ("run/a", expected, 3)
        assert store.stream_head("run/a") == before
        assert len(store.read_stream("run/a")) == 3

    def test_expecting_a_seq_of_a_stream_that_is_not_there_is_a_conflict(self, store: Store) -> None:
        """A stream that does not exist is at seq 0, and the refused append does not create it."""
        with pytest.raises(errors.Conflict) as refused:
            store.append("run/new", event(), expected=1)
        assert (refused.value.expected, refused.value.actual) == (1, 0)
        assert store.stream_head("run/new") is None
        assert (store.streams(), store.head()) == ([], 0)

    def test_a_refused_append_leaves_no_gap_behind(self, store: Store) -> None:
        """EVT-01: the next append after a conflict gets the next seq."""
        store.append("run/a", event())
        for _ in range(3):
            with pytest.raises(errors.Conflict):
                store.append("run/a", events(5), expected=7)
        assert store.append("run/a", event()).first_seq == 2

    @needs(ANY_STREAM)
    def test_an_expectation_looks_at_its_own_stream_alone(self, store: Store) -> None:
        """Appends to other streams never cause a conflict."""
        store.append("order/a", event())
        store.append("order/b", events(5))
        assert store.append("order/a", event(), expected=1).seq == 2

    def test_a_demanded_link_is_judged_in_the_commit(self, store: Store) -> None:
        """COM-03: an event that was signed elsewhere follows one link. On another link the whole append is refused."""
        done = store.append("run/a", event())
        for link, accepted in ((b"x" * 32, False), (done.link, True)):
            transaction = store._preparer.prepare([Request([Part("run/a", [event(2)])])])[0]
            assert isinstance(transaction, Transaction)
            transaction.writes[0].after_link = link
            outcome = store.log.commit([transaction])[0]
            assert isinstance(outcome, list) is accepted
        assert len(store.read_stream("run/a")) == 2
