"""Places in a list that a reader may go on from without being told the name that stands there.

A list that looks at a bounded number of names may end at one of another org. They are kept in memory, so many at a
time: one that is gone, by a restart or by age, is refused, and the reader begins the list again.
"""

from __future__ import annotations

import secrets
import threading

from tallystick import errors

COUNT_MAX = 10_000
SIGN = "~"  # no kind and no name begins with it


class Bookmarks:
    """The bookmarks of a service. Use it from any thread."""

    def __init__(self, *, count_max: int = COUNT_MAX) -> None:
        self._count_max = count_max
        self._places: dict[str, str] = {}
        self._lock = threading.Lock()

    def keep(self, place: str) -> str:
        """A word for a place that says nothing about it."""
        mark = SIGN + secrets.token_urlsafe(16)
        with self._lock:
            self._places[mark] = place
            if len(self._places) > self._count_max:
                del self._places[next(iter(self._places))]
        return mark

    def place(self, given: str) -> str:
        """The place that a cursor means: itself, if it is no bookmark."""
        if not given.startswith(SIGN):
            return given
        with self._lock:
            found = self._places.get(given)
        if found is None:
            raise errors.InvalidValue(what="after", value=given[:40], must="given lately: begin the list again")
        return found
