"""Publishing how far the log is proven: soon after a commit, never inside of it, and not more often than needed.

A standby has no locks to look at and reads what is published; a reader that has just started begins there.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import Connections

_PAUSE_S = 0.25


class Publisher:
    """A thread that wakes when something was committed, and sleeps while nothing is."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._changed = threading.Condition()
        self._dirty = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def note(self) -> None:
        """Something was committed."""
        if self._dirty:
            return
        with self._changed:
            self._dirty = True
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="tallystick-publisher", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._dirty or self._closing)
                self._changed.wait_for(lambda: self._closing, _PAUSE_S)
                if not self._dirty:
                    return
                self._dirty = False
            with suppress(errors.TallyError):  # it is published with the next commit; readers prove it themselves
                self.publish()
            if self._closing:
                return

    def publish(self) -> None:
        """Prove what can be proven now, and publish it."""
        with self._connections.using() as connection:
            connection.execute(statements.named("advance"))

    def close(self) -> None:
        """Publish the rest, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
