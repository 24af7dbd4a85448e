"""Which history a handle has read: evidence that another server does not go on with less of it, unnoticed.

A copy that lacks the newest events gives their positions out again. So a handle remembers the newest event that it has
seen, and looks for it on every connection that is new to it before anything is read or written there.

Invariant: what is remembered was seen on a connection that was looked over.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements


class History:
    """What one handle knows of its log. `of_tenant`: it sees its own events alone, so the timeline counts as well."""

    def __init__(self, url: str, *, of_tenant: bool) -> None:
        self._url = url
        self._of_tenant = of_tenant
        self._lock = threading.Lock()
        self._newest: tuple[int, bytes] = (0, b"")
        self._store_id: bytes | None = None
        self._timeline: tuple[int, str] | None = None
        self._started: Any = None

    def note(self, position: int, link: bytes | None) -> None:
        """This event was seen."""
        if link is not None and position > self._newest[0]:
            with self._lock:
                self._newest = max(self._newest, (position, link))

    def is_at(self, started: Any) -> bool:
        """Whether the server that was started then was looked over."""
        return self._started == started

    def look_over(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a connection where the newest event is missing, or is another one; `HistoryReplaced`."""
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

    def _refuse(self, reason: str) -> None:
        raise errors.HistoryReplaced(url=self._url, reason=reason)
