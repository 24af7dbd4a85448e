"""Waiting for the head to move: the database is asked again and again, the more seldom the longer nothing happened.

A handle's own commits wake it at once. Of others it hears after a twentieth of the time that was quiet before, between
`PAUSE_S_MIN` and `PAUSE_S_MAX`; while appends under way hold the head back, after `PAUSE_S_MIN`.
"""

from __future__ import annotations

import threading
import time

from tallystick import errors
from tallystick.engines.postgres.safe_head import SafeHead

PAUSE_S_MIN = 0.01
PAUSE_S_MAX = 0.2
_SHARE = 20


def pause_after(quiet_s: float) -> float:
    """How long to wait before asking again, when nothing has happened for so long."""
    return min(max(quiet_s / _SHARE, PAUSE_S_MIN), PAUSE_S_MAX)


class Waiting:
    """Those who wait for a handle's head."""

    def __init__(self, safe_head: SafeHead) -> None:
        self._safe_head = safe_head
        self._changed = threading.Condition()
        self._commits = 0
        self._last = 0
        self.moved_at = time.monotonic()
        self._closed = False

    def wake(self) -> None:
        """This handle committed."""
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def head(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or when the time is up."""
        deadline = time.monotonic() + timeout
        while True:
            commits = self._commits
            head = self._glance()
            now = time.monotonic()
            if head > self._last:
                self._last, self.moved_at = head, now
            if head > after or now >= deadline or self._closed:
                return head
            pause = PAUSE_S_MIN if self._safe_head.is_held_back else pause_after(now - self.moved_at)
            self._sleep(min(pause, deadline - now), commits)

    def _glance(self) -> int:
        try:
            return self._safe_head.known if self._closed else self._safe_head.glance()
        except errors.TallyError:
            if self._closed:  # while it was asked
                return self._safe_head.known
            raise

    def _sleep(self, seconds: float, commits: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._commits != commits, seconds)
