"""A clock that a test moves by hand."""

from __future__ import annotations

SECOND = 1_000_000_000
START = 1_760_000_000 * SECOND


class ManualClock:
    """Returns nanoseconds since the epoch, for `tallystick.open(clock=...)`. It can also be set back."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float = 0, ns: int = 0) -> int:
        """Move forward (or back) and return the new time."""
        self.now += round(seconds * SECOND) + ns
        return self.now
