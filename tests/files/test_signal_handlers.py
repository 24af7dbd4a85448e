"""Appending in a signal handler that came in the middle of an append: refused, on every engine."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors
from tallystick.engines.disk import Disk
from tallystick.store.verify import verify
from tallystick.testing.builders import events
from tallystick.testing.clock import START


class Handler:
    """Appends to a store whenever the signal comes, and notes what it got."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.got: list[Any] = []
        self.inside = False
        self.ticks = itertools.count(START, 1_000_000)

    def __call__(self, *_: object) -> None:
        if self.store is None or self.inside:
            return
        self.inside = True
        try:
            self.got.append(self.store.append("order/handler", events(1)))
        except errors.TallyError as refusal:
            self.got.append(refusal)
        finally:
            self.inside = False

    def clock(self) -> int:
        """The time. Engines ask for it in the middle of an append: then the signal comes."""
        signal.raise_signal(signal.SIGINT)
        return next(self.ticks)


@pytest.fixture
def handler() -> Iterator[Handler]:
    """A handler that is installed for this test."""
    found = Handler()
    before = signal.signal(signal.SIGINT, found)
    yield found
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("url", ["files:{}/log", "sqlite:{}/log.db", "memory:"])
def test_an_append_inside_an_append_of_the_same_thread_is_refused(handler: Handler, tmp_path: Path, url: str) -> None:
    """EVT-01, LH-19: it neither hangs nor writes: the append continues, and each position is used once."""
    with tallystick.open(url.format(tmp_path), clock=handler.clock) as store:
        handler.store = store
        done = [store.append("order/main", events(2, first=number)) for number in range(5)]
        assert [type(answer) for answer in handler.got] == [errors.Nested] * len(handler.got)
        assert len(handler.got) >= 10  # while an append is prepared, and while it is committed
        assert [item.position for item in done] == [2, 4, 6, 8, 10]
        handler.got.clear()
        handler(None)  # when nothing is being appended it may
        assert [answer.position for answer in handler.got] == [11]
        handler.store = None
        assert [item.stream for item in store.events()] == ["order/main"] * 10 + ["order/handler"]
        assert verify(store.log).ok
    if url != "memory:":
        with tallystick.open(url.format(tmp_path)) as again:
            assert ([item.position for item in again.events()], again.holes()) == (list(range(1, 12)), [])
            assert verify(again.log).ok


def test_a_handler_that_comes_at_the_sync_does_not_write_into_the_frame(
    handler: Handler, opened: Any, hooked: Any
) -> None:
    """LH-08, LH-19: a second append at the worst moment is refused, and the frame that was being synced is whole."""
    store = handler.store = opened(filesystem=hooked)
    hooked.after = lambda operation, path: signal.raise_signal(signal.SIGINT)
    for number in range(1, 4):
        assert store.append("order/main", events(1)).position == number
    hooked.after = None
    assert [type(answer) for answer in handler.got] == [errors.Nested] * 3
    handler.store = None
    store.close()
    again = opened(filesystem=Disk())
    assert [item.stream for item in again.events()] == ["order/main"] * 3
    assert verify(again.log).ok
