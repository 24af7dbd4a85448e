"""The history that a handle has read, so that it notices another server with less of it.

A copy that lacks the newest events gives out their positions again. So a handle remembers the newest event that it has
seen, and looks for it on each new connection before anything is read or written there.

Invariant: what is remembered was seen on a connection that was checked.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements


class History:
    """What one handle has seen of its log.

    A tenant's handle (`of_tenant`) sees only its own events, so it also compares the server's timeline.
    """

    def __init__(self, url: str, *, of_tenant: bool) -> None:
        self._url = url
        self._of_tenant = of_tenant
        self._lock = threading.Lock()
        self._newest: tuple[int, bytes] = (0, b"")
        self._store_id: bytes | None = None
        self._timeline: tuple[int, str] | None = None
        self._started: Any = None

    def note(self, position: int, link: bytes | None) -> None:
        """Note that this event was seen."""
        if link is not None and position > self._newest[0]:
            with self._lock:
                self._newest = max(self._newest, (position, link))

    def is_checked(self, started: Any) -> bool:
        """Whether the server that was started at this time was checked."""
        return bool(self._started == started)

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """Raise `HistoryReplaced` if the newest event is missing on this connection, or is another one."""
        position, link = self._newest
        row = connection.execute(statements.named("find_evidence"), (position,)).fetchone()
        if row is None:
            self._refuse("there is no store")
        store_id, started, found, floor = row
        if self._store_id not in (None, store_id):
            self._refuse("it is another store")
        if found is None and position > floor:
            self._refuse(f"there is no event at position {position}")
        if found is not None and found != link:
            self._refuse(f"the event at position {position} is another one")
        if self._of_tenant:
            self._require_timeline(connection)
        self._store_id, self._started = store_id, started

    def _require_timeline(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute(statements.named("find_timeline")).fetchone()
        if found is not None and self._timeline not in (None, found):
            self._refuse("another server took over, and a tenant cannot see what it lacks")
        self._timeline = found or self._timeline

    def _refuse(self, reason: str) -> NoReturn:
        raise errors.HistoryReplaced(url=self._url, reason=reason)
