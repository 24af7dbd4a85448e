"""The Lamport clock of one node in one community.

On every send the next value is one more; on every receipt it becomes the larger of both, plus one. There is no row for
it: the clock is a fold over this node's own log in the order of recording, so each event carries the clock's step in
its own commit. At opening every feed has to go as far as the store says, and its lamports have to rise.
"""

from __future__ import annotations

from tallystick import errors
from tallystick.event import limits


class LamportClock:
    """The clock. `current` is the highest value that was sent or seen, or one past what was received."""

    def __init__(self, current: int = 0) -> None:
        self._current = current

    @property
    def current(self) -> int:
        """The value after the last send or receipt."""
        return self._current

    def next_for_send(self) -> int:
        """What the next event will carry; the clock moves when that event is recorded."""
        if self._current >= limits.INT_MAX:
            raise errors.EventLogError(code="out_of_order", reason="the clock of this community is exhausted")
        return self._current + 1

    def tick_for_send(self) -> int:
        """The next value, taken."""
        self._current = self.next_for_send()
        return self._current

    def sent(self, lamport: int) -> None:
        """An event of one's own was recorded."""
        self._current = max(self._current, lamport)

    def observe(self, received_lamport: int) -> None:
        """An event of another was recorded."""
        self._current = min(max(self._current, received_lamport) + 1, limits.INT_MAX)
