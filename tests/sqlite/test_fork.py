"""A handle does not survive a fork."""

from __future__ import annotations

import os

import pytest

import tallystick
from tallystick import errors
from tallystick.store.verify import verify


def _in_a_fork(work) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_cannot_use_the_handle(store, some):
    """Reads and appends through an inherited handle are refused, closing it is harmless, and the parent continues."""
    store.append("run/1", some(1))

    def child() -> None:
        for use in (lambda: store.append("run/1", some(1)), store.head, store.read, store.report):
            with pytest.raises(errors.StoreFailed, match="inherited"):
                use()
        store.close()

    assert _in_a_fork(child) == 0
    assert store.append("run/1", some(1)).seq == 2
    assert verify(store.log).ok


def test_a_forked_child_can_open_its_own(store, some, path):
    """A child that opens the store again is a process like any other."""
    store.append("order/a", some(1))

    def child() -> None:
        with tallystick.open(f"sqlite:{path}") as own:
            own.append("order/a", some(1))

    assert _in_a_fork(child) == 0
    assert store.append("order/a", some(1)).seq == 3
    assert verify(store.log).ok
