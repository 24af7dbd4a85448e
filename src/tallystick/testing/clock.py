"""A clock that stands still until a test moves it."""

from __future__ import annotations

SECOND = 1_000_000_000
START = 1_760_000_000 * SECOND


class ManualClock:
    """Nanoseconds since the epoch, as `tallystick.open(clock=...)` wants them. It may also be set back."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float = 0, ns: int = 0) -> int:
        """Move on (or back), and say what time it is then."""
        self.now += round(seconds * SECOND) + ns
        return self.now
