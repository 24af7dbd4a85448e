"""Trying again what is transient: pauses that double up to a limit, with jitter, and a bound. Each retry is counted.

The jitter keeps two that met at the same moment from meeting again. `retries` is what metrics show of this process.
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
    """How often what was tried again, in this process."""
    with _counting:
        return dict(_counted)


class Backoff:
    """The pauses of one attempt at something. Without `tries_max` whoever uses it has a bound of its own."""

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
        """Wait before the next try, a half to the whole of a pause that doubles; False if it was tried often enough."""
        if self._tries_max is not None and self._tries >= self._tries_max:
            return False
        longest = min(FIRST_SECONDS * 2 ** min(self._tries, 30), PAUSE_SECONDS_MAX)
        self._tries += 1
        with _counting:
            _counted[self._what] += 1
        self._sleep(longest * (1 + self._share()) / 2)
        return True

    def begin_again(self) -> None:
        """What was tried went on: count from the start."""
        self._tries = 0
