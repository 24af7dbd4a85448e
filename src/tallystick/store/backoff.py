"""Retries of transient failures: pauses that double up to a limit, with jitter, and a bound. Each retry is counted.

The jitter keeps two callers that collided from colliding again. `retries` is for the metrics of this process.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

FIRST_SECONDS, PAUSE_SECONDS_MAX, TRIES_MAX = 0.001, 0.05, 20

_counted: Counter[str] = Counter()
_counting = threading.Lock()


def retries() -> dict[str, int]:
    """How often each operation was retried in this process."""
    with _counting:
        return dict(_counted)


class Backoff:
    """The pauses between the tries of one operation. Without `tries_max` the caller has a bound of its own."""

    def __init__(
        self,
        what: str,
        *,
        tries_max: int | None = TRIES_MAX,
        sleep: Callable[[float], None] = time.sleep,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._what = what
        self._tries_max = tries_max
        self._sleep = sleep
        self._share = share
        self._tries = 0

    def pause(self) -> bool:
        """Wait before the next try, half to all of a pause that doubles; False if the bound is reached."""
        if self._tries_max is not None and self._tries >= self._tries_max:
            return False
        longest = min(FIRST_SECONDS * 2 ** min(self._tries, 30), PAUSE_SECONDS_MAX)
        self._tries += 1
        with _counting:
            _counted[self._what] += 1
        self._sleep(longest * (1 + self._share()) / 2)
        return True

    def begin_again(self) -> None:
        """Count from the start, because the operation made progress."""
        self._tries = 0
