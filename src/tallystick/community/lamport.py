"""The Lamport clock of one node in one community.

Each send adds one; each receipt takes the larger value plus one. The clock is not stored: it is a fold over this node's
log in the order of recording, so each event's commit also advances the clock. At opening, every feed must be as long as
the store says, and its lamports must rise.
"""

from __future__ import annotations

from tallystick import errors
from tallystick.event import limits


class LamportClock:
    """The clock. `current` is the highest value that was sent, or one past the highest received."""

    def __init__(self, current: int = 0) -> None:
        self._current = current

    @property
    def current(self) -> int:
        """The value after the last send or receipt."""
        return self._current

    def next_for_send(self) -> int:
        """The value for the next event. The clock advances when that event is recorded."""
        if self._current >= limits.INT_MAX:
            raise errors.EventLogError(code="out_of_order", reason="the clock of this community is exhausted")
        return self._current + 1

    def tick_for_send(self) -> int:
        """Advance the clock and return the new value."""
        self._current = self.next_for_send()
        return self._current

    def sent(self, lamport: int) -> None:
        """Advance the clock to an own event that was recorded."""
        self._current = max(self._current, lamport)

    def observe(self, received_lamport: int) -> None:
        """Advance the clock past a received event that was recorded."""
        self._current = min(max(self._current, received_lamport) + 1, limits.INT_MAX)
