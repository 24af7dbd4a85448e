"""What the service keeps in memory for a while: places in lists, and responses that contain a secret.

Both are bounded, and belong to this process. What is no longer kept is refused, or answered without the secret.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from tallystick import errors
from tallystick.store.idempotency import CommandKey

BOOKMARKS_MAX = 10_000
BOOKMARK_SIGN = "~"  # no kind and no name begins with it
RESPONSE_SECONDS = 600.0
RESPONSES_MAX = 1000


class Bookmarks:
    """Places in lists, for callers who may not learn the name at such a place. Use it from any thread.

    A list that scans a bounded number of names may stop at a name of another org. If a bookmark is gone, after a
    restart or because of its age, it is refused, and the caller starts the list again.
    """

    def __init__(self, *, count_max: int = BOOKMARKS_MAX) -> None:
        self._count_max = count_max
        self._places: dict[str, str] = {}
        self._lock = threading.Lock()

    def keep(self, place: str) -> str:
        """A cursor for a place. It says nothing about the place."""
        mark = BOOKMARK_SIGN + secrets.token_urlsafe(16)
        with self._lock:
            self._places[mark] = place
            if len(self._places) > self._count_max:
                del self._places[next(iter(self._places))]
        return mark

    def place(self, cursor: str) -> str:
        """The place of a cursor. A cursor that is not a bookmark is itself the place."""
        if not cursor.startswith(BOOKMARK_SIGN):
            return cursor
        with self._lock:
            found = self._places.get(cursor)
        if found is None:
            raise errors.InvalidValue(what="after", value=cursor[:40], must="given lately: begin the list again")
        return found


class SecretResponses:
    """The bodies of recent responses that contain a secret, by the key of their command, for a retry soon after."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._bodies: dict[CommandKey, tuple[float, bytes]] = {}

    def keep(self, key: CommandKey, body: bytes) -> None:
        """Keep a body for a while. If there are too many, the oldest is dropped."""
        self._forget()
        self._bodies[key] = (self._monotonic() + RESPONSE_SECONDS, body)
        if len(self._bodies) > RESPONSES_MAX:
            del self._bodies[next(iter(self._bodies))]

    def find(self, key: CommandKey) -> bytes | None:
        """The body, if it is still kept."""
        self._forget()
        return self._bodies[key][1] if key in self._bodies else None

    def _forget(self) -> None:
        now = self._monotonic()
        for key in [key for key, (until, _) in self._bodies.items() if until <= now]:
            del self._bodies[key]
