"""Accepted losses: what lies in one, where a reading must stop, and how streams go on after it."""

from __future__ import annotations

import pytest

from tallystick import Event, errors
from tallystick.event import chain
from tallystick.store import loss
from tallystick.store.ledger import Head
from tallystick.store.loss import Loss, LostEnd
from tallystick.store.page import Hole, Page

TEN = Loss(10, 12, "given up")
TWENTY = Loss(20, 29, "given up too", is_indexed=True, ends=(LostEnd("order/b", 7, b"b" * 32, "acme"),))
BOTH = (TEN, TWENTY)


@pytest.mark.parametrize(
    ("after", "until", "found"),
    [
        (0, 9, ()),
        (0, 10, (TEN,)),
        (11, 19, (TEN,)),
        (12, 19, ()),
        (12, 20, (TWENTY,)),
        (11, 20, BOTH),
        (28, 99, (TWENTY,)),
        (29, 99, ()),
    ],
)
def test_a_loss_between_two_places_holds_a_position_there(after: int, until: int, found: tuple[Loss, ...]) -> None:
    """The range is after < position <= until, as for a page."""
    assert tuple(loss.between(BOTH, after, until)) == found


def test_a_reading_goes_up_to_a_loss_and_does_not_begin_in_one() -> None:
    """SAFE-01: the events before it are given; the next page is refused by its bounds."""
    assert loss.readable_until((), after=5, until=99) == 99
    assert loss.readable_until(BOTH, after=8, until=99) == 9
    with pytest.raises(errors.HistoryLost) as refused:
        loss.readable_until(BOTH, after=9, until=99)
    assert (refused.value.first, refused.value.last) == (10, 12)


def test_a_page_names_the_losses_that_it_reached() -> None:
    """In order of place, beside the holes that it had."""
    page = loss.named_in(Page([], 20, (Hole(15, 16, "damaged"),)), BOTH)
    assert [(hole.first, hole.last, hole.accepted) for hole in page.holes] == [
        (10, 12, True),
        (15, 16, False),
        (20, 29, True),
    ]
    assert [hole.first for hole in loss.named_in(Page([], 19), BOTH).holes] == [10]


def test_a_stream_goes_on_behind_as_many_seqs_as_may_be_lost() -> None:
    """SAFE-01: nobody knows what a loss without an index held, so no seq of it is used again."""
    found = Head(3, b"a" * 32, "acme")
    assert loss.head_after((TEN,), "order/a", found, lambda _: 9) == Head(6, b"a" * 32, "acme")
    assert loss.head_after((TEN,), "order/a", found, lambda _: 13) == found
    assert loss.head_after((TEN, Loss(14, 14, "")), "order/a", found, lambda _: 5) == Head(7, b"a" * 32, "acme")
    assert loss.head_after((TEN,), "order/new", None, lambda _: 0) is None


def test_a_stream_whose_end_an_index_knew_is_as_it_knew_it() -> None:
    """Streams that the index does not name have no event there."""
    end = Head(7, b"b" * 32, "acme")
    assert loss.head_after((TWENTY,), "order/b", end, lambda _: 5) == end
    other = Head(2, b"c" * 32, None)
    assert loss.head_after((TWENTY,), "order/c", other, lambda _: 5) == other
    assert loss.head_after((TWENTY, Loss(31, 32, "")), "order/b", end, lambda _: 5) == Head(9, b"b" * 32, "acme")


def test_a_loss_gives_the_end_of_the_stream_that_was_asked_for() -> None:
    """SAFE-01: of none that ends elsewhere."""
    assert [end and end.seq for end in map(TWENTY.end_of, ("order/a", "order/b", "order/c"))] == [None, 7, None]


def test_the_end_of_a_stream_that_goes_on_in_a_loss_names_the_next_one() -> None:
    """SAFE-01: the first loss after the last event that was found, from position 1 on if none was."""
    first, second = Loss(1, 2, "the very first"), Loss(5, 6, "a later one")
    head, event = Head(9, b"a" * 32, None), Event(3, "order/1", 1, "t", 1, bytes(16), 0, b"{}", b"{}", b"", b"")
    for found, loss_ in (([], first), ([event], second)):
        with pytest.raises(errors.HistoryLost) as refused:
            loss.require_none_after((first, second), found, head=head, reached=len(found))
        assert (refused.value.first, refused.value.last) == (loss_.first, loss_.last)
    loss.require_none_after((first, second), [event], head=Head(1, b"a" * 32, None), reached=1)


def test_a_reserved_stream_of_which_nothing_is_left_is_not_taken_for_a_new_one() -> None:
    """SAFE-02: it may have begun in the loss; the losses' own streams never do."""
    assert loss.head_after((TEN,), "tally.stream/x", None, lambda _: 0) == Head(3, chain.GENESIS, None)
    assert loss.head_after((TEN,), "tally.loss/x", None, lambda _: 0) is None
