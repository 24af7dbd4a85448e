"""Wakes threads that wait for something to change; ringing costs nothing while nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Bell:
    """Rung after a change. Who begins to wait later looks first, and so sees the change itself."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0

    def ring(self) -> None:
        """Let everyone who waits look again."""
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def wait_for(self, is_so: Callable[[], bool], timeout: float) -> None:
        """Wait until it is so, or until the time is over."""
        with self._changed:
            self._waiting += 1  # before the first look: a change after that look finds it raised
            try:
                self._changed.wait_for(is_so, timeout)
            finally:
                self._waiting -= 1
