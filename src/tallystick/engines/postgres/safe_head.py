"""How far this handle knows the log to be final: the proof of `sql/functions/prove.sql`, continued.

Invariant: the head never goes back, and whoever reads up to it reads with a snapshot taken after it was proven.
"""

from __future__ import annotations

import threading
import time

from tallystick.engines.postgres.connections import Reading

_ASK_AGAIN_S = 0.002
_ASK_TIMES = 10


class SafeHead:
    """The head, and the proof that is under way."""

    def __init__(self, connections: Reading) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._head = 0
        self._pending: int | None = None
        self._holders: list[str] | None = None

    @property
    def known(self) -> int:
        """What was proven so far, without asking."""
        return self._head

    @property
    def is_held_back(self) -> bool:
        """Whether a proof waits for appends that are under way."""
        return self._pending is not None

    def reach(self, position: int) -> None:
        """Take in what a commit of this handle has proven by holding the log alone."""
        with self._lock:
            self._head = max(self._head, position)

    def prove(self) -> int:
        """The head. A proof that waits for appends that are just ending is given the moment they need."""
        head, pending = self._ask()
        for _ in range(_ASK_TIMES):
            if pending is None:
                break
            time.sleep(_ASK_AGAIN_S)
            wanted = pending
            head, pending = self._ask()
            if head >= wanted:
                break
        return head

    def glance(self) -> int:
        """The head as far as it can be told at once."""
        return self._ask()[0]

    def _ask(self) -> tuple[int, int | None]:
        self._connections.birthplace.require()
        with self._lock:
            values = (self._head, self._pending, self._holders)
        ((head, pending, holders, link),) = self._connections.rows("prove", values)
        self._connections.history.note(head, link)
        with self._lock:
            self._head = max(self._head, head)
            if self._pending is None or pending is None or self._pending <= self._head:
                self._pending, self._holders = pending, holders
            return self._head, self._pending
