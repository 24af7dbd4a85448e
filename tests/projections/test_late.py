"""Views whose events may arrive late."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tallystick
from tallystick import Event, errors
from tallystick.projections import LateView
from tallystick.projections.merged_order import mark_of
from tallystick.testing.builders import event


class Trace:
    """A view that records the order of its events."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def reset(self) -> None:
        self.seen = []

    def apply(self, event: Event) -> None:
        self.seen.append(event.metadata["lamport"])

    def snapshot_state(self) -> Any:
        return self.seen

    def restore_state(self, state: Any) -> None:
        self.seen = state


class Feed:
    """Events as they arrive, and the history in the merged order."""

    def __init__(self) -> None:
        self.store = tallystick.open("memory:")
        self.read = 0

    def arrive(self, *lamports: int) -> list[Event]:
        made = [event(number, meta={"lamport": number}) for number in lamports]
        at = self.store.append("feed/1", made)
        return list(self.store.events(after=at.first_position - 1))

    def history(self, after: bytes) -> list[Event]:
        found = sorted((mark_of(item) or b"", item) for item in self.store.events())
        events = [item for mark, item in found if mark > after]
        self.read += len(events)
        return events


@pytest.mark.parametrize("arrival", list(itertools.permutations([(1, 4), (2,), (5, 3)])))
@pytest.mark.parametrize("snapshot_events", [1, 2, 100])
def test_the_order_of_arrival_does_not_matter(arrival: Any, snapshot_events: int) -> None:
    """COM-07: the view ends as if all events had come in the merged order."""
    feed = Feed()
    late = LateView(Trace(), feed.history, snapshot_events=snapshot_events)
    for batch in arrival:
        late.take(feed.arrive(*batch))
    assert late.view.snapshot_state() == [1, 2, 3, 4, 5]


def test_a_late_batch_goes_back_once_and_not_to_the_beginning() -> None:
    """COM-07: several late events of a batch cost one rollback, to the newest snapshot before them."""
    feed = Feed()
    late = LateView(Trace(), feed.history, snapshot_events=10)
    late.take(feed.arrive(*range(1, 101)))
    late.take(feed.arrive(101, 102))
    assert late.refolds == 0
    late.take(feed.arrive(98, 97, 99, 103))
    assert (late.refolds, feed.read) == (1, 102 + 4 - 90)
    assert late.view.snapshot_state() == sorted([*range(1, 104), 97, 98, 99])


@pytest.mark.parametrize("snapshot_events", [1, 2, 100])
def test_what_comes_twice_is_applied_once(snapshot_events: int) -> None:
    """COM-07: peers repeat events whose arrival they do not know of, also the last event."""
    feed = Feed()
    late = LateView(Trace(), feed.history, snapshot_events=snapshot_events)
    events = feed.arrive(1, 2, 3)
    for again in (events, events[2:], events[1:2], events):
        late.take(again)
        assert late.view.snapshot_state() == [1, 2, 3]


def test_a_view_that_was_used_before_begins_empty() -> None:
    """COM-07: a view that is created with an old state is reset: that state is of another order of events."""
    view = Trace()
    view.seen = [7]
    late = LateView(view, Feed().history)
    assert (late.view.snapshot_state(), late.last) == ([], b"")


def test_an_event_without_a_lamport_is_refused() -> None:
    """COM-07: an event without a lamport has no position in the merged order."""
    feed = Feed()
    feed.store.append("feed/1", event())
    with pytest.raises(errors.InvalidValue):
        LateView(Trace(), feed.history).take(list(feed.store.events()))
