"""A connection of uvicorn that is closed after a while without a request.

Without it a client that opens connections and sends nothing, or half a head, would hold them permanently.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 1000


class IdleTimeoutConnection(H11Protocol):
    """A connection on which requests must come."""

    _timer: asyncio.TimerHandle | None = None
    _answered: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._timer = self.loop.call_later(IDLE_SECONDS_MAX, self._look)

    def _look(self) -> None:
        """Close the connection if no request came since the last look. A running request has its own bounds."""
        is_quiet = self.cycle is None or self.cycle.response_complete
        if is_quiet and self.cycle is self._answered:
            self.transport.close()
            return
        self._answered = self.cycle if is_quiet else None
        self._watch()
