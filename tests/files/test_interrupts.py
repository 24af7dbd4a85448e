"""Ctrl-C in the middle of an append: what is durable stays, and the writer says that it does not know more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from tallystick import errors
from tallystick.engines.files.engine import FilesLog
from tallystick.engines.files.index import GrowingIndex
from tallystick.store import group_commit
from tallystick.store.commit import Appended
from tallystick.store.verify import verify
from tallystick.testing.builders import events

BOUND_SECONDS = 30


def interrupt_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """The next call of a method is interrupted before it has done anything."""

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


def interrupt_after_the_sync(disk: Any) -> None:
    """The next sync is done, and then comes the interrupt."""

    def interrupted(operation: str, path: str) -> None:
        if operation == "sync":
            raise KeyboardInterrupt

    disk.after = interrupted


@pytest.mark.parametrize("moment", ["sync", "index", "heads"])
def test_an_interrupt_behind_the_sync_poisons_the_writer(
    opened: Any, hooked: Any, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """LH-16, LH-19: appends fail until the log is reopened; then all that is durable is there, each position once."""
    store = opened(filesystem=hooked)
    store.append("order/1", events(1))
    if moment == "sync":
        interrupt_after_the_sync(hooked)
    else:
        interrupt_once(monkeypatch, *((GrowingIndex, "add") if moment == "index" else (FilesLog, "_note_heads")))
    with pytest.raises(KeyboardInterrupt):
        store.append("order/1", events(1, first=2))
    hooked.after = None
    for _ in range(2):
        with pytest.raises(errors.StoreFailed):
            store.append("order/1", events(1, first=3))
    store.close()
    again = opened()
    assert again.holes() == []
    assert again.append("order/1", events(1, first=4)).position == 3
    assert [(item.position, item.seq, item.data) for item in again.events()] == [
        (1, 1, {"n": 1}),
        (2, 2, {"n": 2}),
        (3, 3, {"n": 4}),
    ]
    assert verify(again.log).ok


class InterruptedQueue(deque[Any]):
    """A queue; taking its last item is interrupted once."""

    armed = False

    def popleft(self) -> Any:
        item = super().popleft()
        if self.armed and not self:
            self.armed = False
            raise KeyboardInterrupt
        return item


@contextlib.contextmanager
def beside(store: Any, *, waiting: int) -> Iterator[list[Any]]:
    """Hold the lock until another thread's append waits in the queue, as one of so many; what that thread gets."""
    combiner, got = store.log._combiner, list[Any]()

    def other() -> None:
        try:
            got.append(store.append("order/other", events(1)))
        except BaseException as problem:
            got.append(problem)

    thread = threading.Thread(target=other)
    with combiner.lock:
        thread.start()
        until = time.monotonic() + BOUND_SECONDS
        while len(combiner._queue) < waiting and time.monotonic() < until:
            time.sleep(0.001)
        yield got
    thread.join(BOUND_SECONDS)


@pytest.fixture
def queued(opened: Any) -> tuple[Any, InterruptedQueue]:
    """A store, and its queue of requests."""
    store, queue = opened(), InterruptedQueue()
    store.log._combiner._queue = queue
    return store, queue


def test_a_group_that_is_interrupted_while_it_is_taken_forgets_no_thread(opened: Any, queued: Any) -> None:
    """LH-16: one thread gets its interrupt, another one of the group that the outcome is not known."""
    store, queue = queued
    with beside(store, waiting=1) as got:
        queue.armed = True
        with pytest.raises(KeyboardInterrupt):
            store.append("order/own", events(1))
    assert [type(answer) for answer in got] == [errors.StoreFailed]
    with contextlib.suppress(errors.StoreFailed):
        store.append("order/own", events(1))
    store.close()
    assert verify(opened().log).ok


def test_a_request_that_was_just_taken_from_the_queue_is_not_forgotten(queued: Any) -> None:
    """LH-16: also when the interrupt comes right after another thread's request was taken."""
    store, queue = queued
    own = group_commit._Queued([])
    queue.append(own)
    with beside(store, waiting=2) as got:
        queue.armed = True
        store.log._combiner._commit_queue(own)
    assert isinstance(own.failure, KeyboardInterrupt)
    assert [type(answer) for answer in got] in ([errors.StoreFailed], [Appended])


def test_another_thread_of_an_interrupted_group_is_not_interrupted(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-16: it gets StoreFailed, and after reopening its event is there whole or not at all, once."""
    store = opened()
    with beside(store, waiting=1) as got:
        interrupt_once(monkeypatch, GrowingIndex, "add")
        with pytest.raises(KeyboardInterrupt):
            store.append("order/own", events(1))
    assert [type(answer) for answer in got] == [errors.StoreFailed]
    store.close()
    again = opened()
    assert sorted(item.stream for item in again.events()) == ["order/other", "order/own"]
    assert verify(again.log).ok
