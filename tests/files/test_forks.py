"""A handle that a forked process inherits: the parent keeps its lock, and the child is refused."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.store.transfer import Transfer
from tallystick.testing.builders import events

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning"),
]

ANSWER_SECONDS = 60
RIGHT = 77


def child(do: Callable[[], bool]) -> int:
    """A forked child that ends with RIGHT if what it does gives True."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(ANSWER_SECONDS)  # a child that hangs is killed by it
    try:
        os._exit(RIGHT if do() else 1)
    except BaseException:
        os._exit(2)


def status(pid: int) -> int:
    """How a child ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(act: Callable[[], object]) -> bool:
    """Whether it is refused because of the fork."""
    try:
        act()
    except errors.StoreFailed as problem:
        return "fork" in problem.message
    return False


def test_a_child_that_has_not_run_yet_does_not_keep_the_lock_either(opened: Any, directory: Path) -> None:
    """SAFE-04: it has copies of what its parent had open, until it closes them or becomes another program."""
    writer = opened()
    writer.append("order/1", events(1))
    held = [os.dup(descriptor) for descriptor in writer.log._view.opened.lock._held]
    try:
        writer.close()
        assert opened().append("order/1", events(1)).seq == 2
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_child_does_not_keep_the_lock_of_its_parent(opened: Any, directory: Path) -> None:
    """SAFE-04: the log can be opened again when its writer closed it, though a child still lives."""
    writer = opened()
    writer.append("order/1", events(1))
    reading, writing = os.pipe()
    pid = child(lambda: os.read(reading, 1) == b"x")
    writer.close()
    with tallystick.open(f"files:{directory}") as again:
        assert again.append("order/1", events(1)).seq == 2
    os.write(writing, b"x")
    assert status(pid) == RIGHT
    os.close(reading)
    os.close(writing)


def test_a_child_that_closes_does_not_free_the_lock_of_its_parent(opened: Any, directory: Path) -> None:
    """SAFE-04: closing an inherited handle gives nothing back that is not the child's."""
    writer = opened()
    writer.append("order/1", events(1))

    def closes() -> bool:
        writer.close()
        return True

    assert status(child(closes)) == RIGHT
    with pytest.raises(errors.StoreLocked):
        tallystick.open(f"files:{directory}")
    assert writer.append("order/1", events(1)).seq == 2


@pytest.fixture
def busy(opened: Any) -> Iterator[Any]:
    """A log to which four threads append without end."""
    store = opened()
    store.append("order/0", events(1))
    ending = threading.Event()

    def appends(number: int) -> None:
        while not ending.is_set():
            store.append(f"order/{number}", events(1))

    threads = [threading.Thread(target=appends, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    yield store
    ending.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.append("order/9", events(1)),
        lambda store: store.log.receive(Transfer(after=0, events=())),
        lambda store: store.log.reclaim(compress_before=None, progress=lambda done: None),
        lambda store: store.read(limit=1),
        lambda store: store.stream_head("order/0"),
        lambda store: store.head(),
    ],
    ids=["append", "receive", "reclaim", "read", "stream_head", "head"],
)
def test_a_child_that_was_forked_during_commits_is_refused_and_does_not_hang(busy: Any, act: Any) -> None:
    """SAFE-04: locks that another thread held at the fork are never free in the child: it is refused at once."""

    def acts() -> bool:
        found = refused(lambda: act(busy))
        busy.close()
        return found

    pids = []
    for _ in range(8):
        pids.append(child(acts))
        time.sleep(0.003)
    assert [status(pid) for pid in pids] == [RIGHT] * 8
