"""Waiting for a change: a signal wakes the threads of this process, and a poll sees what another process wrote."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

POLL_SECONDS = 0.01


class ChangeSignal:
    """Given after each change. A thread that begins to wait later looks first, and so sees the change itself."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting = 0

    def notify(self) -> None:
        """Let every waiting thread look again. This costs nothing while no thread waits."""
        if self._waiting:
            with self._condition:
                self._condition.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until the condition holds, or until the time is over."""
        with self._condition:
            self._waiting += 1  # before the first look: a change after that look sees that a thread waits
            try:
                self._condition.wait_for(condition, timeout)
            finally:
                self._waiting -= 1


def poll(head: Callable[[], int], after: int, timeout: float) -> int:
    """The head, once it is past `after` or the time is over. The writer is another process, which sends no signal."""
    until = time.monotonic() + timeout
    while (found := head()) <= after and (left := until - time.monotonic()) > 0:
        time.sleep(min(POLL_SECONDS, left))
    return found
