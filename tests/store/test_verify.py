"""Verification of what an engine serves: an event that is missing, and one that comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import Store
from tallystick.event.model import Event
from tallystick.store.page import Page
from tallystick.store.verify import verify
from tallystick.testing.builders import events


class Altered:
    """A log that serves other events than it has."""

    def __init__(self, log: Any, alter: Callable[[list[Event]], list[Event]]) -> None:
        self._log = log
        self._alter = alter

    def read(self, **asked: Any) -> Page:
        """A page, altered."""
        page: Page = self._log.read(**asked)
        return msgspec.structs.replace(page, events=self._alter(page.events))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@pytest.fixture
def store() -> Iterator[Store]:
    """Two streams of five events."""
    with tallystick.open("memory:") as store:
        for number in range(5):
            store.append_all([("order/a", events(1, first=number), -1), ("order/b", events(1, first=number), -1)])
        yield store


def _found(store: Store, alter: Callable[[list[Event]], list[Event]]) -> list[tuple[str, str | None, int | None]]:
    problems = verify(Altered(store.log, alter)).problems  # type: ignore[arg-type]
    return [(problem.what, problem.stream, problem.seq) for problem in problems]


def test_an_event_that_is_missing_is_named_by_the_one_after_it(store: Store) -> None:
    """SAFE-02: in the middle of a stream and at its beginning; the other stream is not blamed."""
    assert _found(store, lambda page: page) == []
    for seq in (1, 3):
        found = _found(store, lambda page, seq=seq: [e for e in page if (e.stream, e.seq) != ("order/a", seq)])  # type: ignore[misc]
        assert ("sequence", "order/a", seq + 1) in found
        assert not [each for each in found if each[1] == "order/b"]


def test_an_event_that_comes_twice_is_named(store: Store) -> None:
    """SAFE-02: a seq is not used again."""
    found = _found(store, lambda page: [each for event in page for each in [event] * (1 + (event.seq == 2))])
    assert {("sequence", "order/a", 2), ("sequence", "order/b", 2)} <= set(found)
