"""One connection of a node that listens: uvicorn's, which is closed when no request is under way for a while.

Without this whoever opens connections and says nothing, or half a head, holds them for good.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

QUIET_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 1000


class Connection(H11Protocol):
    """A connection that has to ask something."""

    _timer: asyncio.TimerHandle | None = None
    _answered: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._timer = self.loop.call_later(QUIET_SECONDS_MAX, self._look)

    def _look(self) -> None:
        """Close what has asked nothing since the last look. A request that is under way has bounds of its own."""
        is_quiet = self.cycle is None or self.cycle.response_complete
        if is_quiet and self.cycle is self._answered:
            self.transport.close()
            return
        self._answered = self.cycle if is_quiet else None
        self._watch()
