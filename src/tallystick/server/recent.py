"""Answers that hold a secret, for a retry soon after: in this process alone, for some minutes, and only so many."""

from __future__ import annotations

import time
from collections.abc import Callable

from tallystick.store.idempotency import CommandKey

SECONDS = 600.0
COUNT_MAX = 1000


class Recent:
    """The bodies of recent answers by the key of their command."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._bodies: dict[CommandKey, tuple[float, bytes]] = {}

    def keep(self, key: CommandKey, body: bytes) -> None:
        """Keep an answer for a while; the oldest makes room."""
        self._forget()
        self._bodies[key] = (self._monotonic() + SECONDS, body)
        if len(self._bodies) > COUNT_MAX:
            del self._bodies[next(iter(self._bodies))]

    def find(self, key: CommandKey) -> bytes | None:
        """The answer, if it is still kept."""
        self._forget()
        return self._bodies[key][1] if key in self._bodies else None

    def _forget(self) -> None:
        now = self._monotonic()
        for key in [key for key, (until, _) in self._bodies.items() if until <= now]:
            del self._bodies[key]
