"""Event ids in the indexes of segments: found while others are added, and never twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import pytest

from tallystick.engines.files.index import GrowingIndex
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id, events, named


@pytest.mark.parametrize("segments", [1, 2])
def test_verify_finds_an_id_that_stands_twice(opened: Any, monkeypatch: pytest.MonkeyPatch, segments: int) -> None:
    """Settled 6: two events with one id are reported, in one segment and in two, when each link and index is right."""
    store = opened(segment_bytes_max=256 if segments == 2 else 1 << 20)
    store.append("order/1", named(1))
    store.append("order/1", events(1))
    with monkeypatch.context() as patched:
        patched.setattr(store.log, "find", lambda _: None)  # for the ledger the id is new
        assert store.append("order/1", named(2, id=1)).position == 3
    store.close()
    again = opened()
    problems = verify(again.log).problems
    assert "id" in {problem.what for problem in problems}
    if segments == 2:
        assert [event_id(1).hex() in problem.reason for problem in problems] == [True]


def test_ids_in_many_segments_without_a_repetition_are_no_problem(opened: Any) -> None:
    """Ids that come out of order make ranges that overlap; that is not reported."""
    store = opened(segment_bytes_max=256)
    for number in (5, 1, 9, 3, 7, 2):
        store.append("order/1", named(number))
    assert verify(store.log).problems == []


class Asking(array):  # type: ignore[type-arg]
    """The offsets of ids; whenever some were added, a question is asked."""

    grown: GrowingIndex
    answers: list[int | None]

    def extend(self, offsets: Iterable[int], /) -> None:
        self.ask()
        super().extend(offsets)
        self.ask()

    def ask(self) -> None:
        """Look for a stored id."""
        self.answers.append(self.grown.find(event_id(7)))


def test_a_stored_id_is_found_between_any_two_steps_of_adding_others() -> None:
    """EVT-01: a retry that asks while the writer adds ids does not find its event to be new."""
    index = GrowingIndex(begin=0, position=1)
    index._add_ids([event_id(number) for number in range(10)], 100)
    asking = Asking("I", index.id_offsets)
    asking.grown, asking.answers = index, []
    index.id_offsets = asking
    index._add_ids([event_id(number) for number in range(100, 130)], 200)
    assert asking.answers == [100, 100]
    assert index.find(event_id(129)) == 200
