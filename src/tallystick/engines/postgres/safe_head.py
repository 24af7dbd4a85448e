"""How far the log is final, as `sql/functions/prove.sql` proves it: asked for, waited for, and published.

Invariant: the head never goes back, and a read up to it uses a snapshot that was taken after the head was proven.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from tallystick import errors
from tallystick.engines.postgres import statements
from tallystick.engines.postgres.connections import ReadConnections, ServerConnections

_ASK_AGAIN_S = 0.002
_ASK_TIMES = 10
PAUSE_S_MIN = 0.01
PAUSE_S_MAX = 0.2
_SHARE = 20
_PUBLISH_S = 0.25


class SafeHead:
    """The head, and the proof in progress."""

    def __init__(self, connections: ReadConnections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._head = 0
        self._pending: int | None = None
        self._holders: list[str] | None = None

    @property
    def known(self) -> int:
        """The head that was proven so far, without asking the database."""
        return self._head

    @property
    def is_held_back(self) -> bool:
        """Whether a proof waits for appends in progress."""
        return self._pending is not None

    def reach(self, position: int) -> None:
        """Take in what a commit of this handle proved by locking the whole log."""
        with self._lock:
            self._head = max(self._head, position)

    def prove(self) -> int:
        """The head. If the proof waits for appends that are about to end, this waits a moment for them."""
        head, pending = self._ask()
        for _ in range(_ASK_TIMES):
            if pending is None:
                break
            time.sleep(_ASK_AGAIN_S)
            wanted = pending
            head, pending = self._ask()
            if head >= wanted:
                break
        return head

    def glance(self) -> int:
        """The head as far as the database can tell at once."""
        return self._ask()[0]

    def _ask(self) -> tuple[int, int | None]:
        self._connections.process.require()
        with self._lock:
            values = (self._head, self._pending, self._holders)
        ((head, pending, holders, link),) = self._connections.rows("prove", values)
        self._connections.history.note(head, link)
        with self._lock:
            self._head = max(self._head, head)
            if self._pending is None or pending is None or self._pending <= self._head:
                self._pending, self._holders = pending, holders
            return self._head, self._pending


def pause_after(quiet_s: float) -> float:
    """How long to wait before asking again, after so long without an event."""
    return min(max(quiet_s / _SHARE, PAUSE_S_MIN), PAUSE_S_MAX)


class HeadWaiter:
    """Waits for the head to move, by polling the database less often the longer nothing happens.

    A handle's own commits wake it at once. It learns of others after a twentieth of the preceding quiet time, from
    `PAUSE_S_MIN` to `PAUSE_S_MAX`; while appends in progress hold the head back, after `PAUSE_S_MIN`.
    """

    def __init__(self, safe_head: SafeHead) -> None:
        self._safe_head = safe_head
        self._changed = threading.Condition()
        self._commits = 0
        self._last = 0
        self.moved_at = time.monotonic()
        self._closed = False

    def wake(self) -> None:
        """Note that this handle committed."""
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def head(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or when the time is up."""
        deadline = time.monotonic() + timeout
        while True:
            commits = self._commits
            head = self._glance()
            now = time.monotonic()
            if head > self._last:
                self._last, self.moved_at = head, now
            if head > after or now >= deadline or self._closed:
                return head
            pause = PAUSE_S_MIN if self._safe_head.is_held_back else pause_after(now - self.moved_at)
            self._sleep(min(pause, deadline - now), commits)

    def _glance(self) -> int:
        try:
            return self._safe_head.known if self._closed else self._safe_head.glance()
        except errors.TallyError:
            if self._closed:  # closed while the database was asked
                return self._safe_head.known
            raise

    def _sleep(self, seconds: float, commits: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._commits != commits, seconds)


class HeadPublisher:
    """A thread that publishes the proven head soon after a commit, never inside of it, and sleeps in between.

    A standby has no locks to look at and reads what is published; a reader that has just started begins there.
    """

    def __init__(self, connections: ServerConnections) -> None:
        self._connections = connections
        self._changed = threading.Condition()
        self._dirty = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def note(self) -> None:
        """Note that something was committed."""
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
                self._changed.wait_for(lambda: self._closing, _PUBLISH_S)
                if not self._dirty:
                    return
                self._dirty = False
            with suppress(errors.TallyError):  # the next commit publishes it; readers prove it themselves
                self.publish()
            if self._closing:
                return

    def publish(self) -> None:
        """Prove what can be proven now, and publish it."""
        with self._connections.connection() as connection:
            connection.execute(statements.named("advance"))

    def close(self) -> None:
        """Publish the rest, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
