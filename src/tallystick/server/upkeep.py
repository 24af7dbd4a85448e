"""Scheduled work of the service: snapshots, retention, validation, and deleting old command records. One thread.

The log says what is due, so a restart neither forgets a job nor does it twice. Old command records are deleted here and
not in the bounded step of retention, because a busy service adds them faster than that step removes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from tallystick import errors
from tallystick.commands.retention import forget_old
from tallystick.scheduler import Fired, Scheduler
from tallystick.state.archive import Archive
from tallystick.state.policy import Policy
from tallystick.state.reducer import Reducer
from tallystick.store.store import Store

TICK_SECONDS = 1.0
FORGET_SECONDS = 600.0
STOP_SECONDS = 10.0
COMMANDS = "commands"


class SchedulerThread:
    """The scheduler of a service, in its thread."""

    def __init__(
        self,
        store: Store,
        reducers: Sequence[Reducer],
        policy: Policy,
        *,
        archive: Callable[[], Archive] | None = None,
        tell: Callable[[Fired], None] = lambda fired: None,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self.policy = policy
        self.failure = ""
        self._store = store
        self._scheduler = Scheduler(store, reducers, policy, archive=archive)
        self._tell = tell
        self._tick_seconds = tick_seconds
        self._stop = threading.Event()
        self._ticked = time.monotonic()
        self._forgot = float("-inf")
        self._thread = threading.Thread(target=self._run, name="tallystick-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running job, if it ends soon; otherwise the thread ends when the store is closed."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    @property
    def is_running(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive() and not self.failure

    @property
    def behind_seconds(self) -> float:
        """The time since it last checked what is due."""
        return time.monotonic() - self._ticked

    def tick(self) -> None:
        """Do the jobs that are due now."""
        for fired in self._scheduler.tick():
            self._tell(fired)
        if time.monotonic() - self._forgot >= FORGET_SECONDS:
            self._forget()
        self._ticked = time.monotonic()

    def _forget(self) -> None:
        self._forgot = time.monotonic()
        try:
            count = forget_old(self._store, kept_ns=self.policy.commands_ns)
        except (errors.Refused, errors.Busy, errors.NoSpace, errors.Damaged) as problem:
            self._tell(Fired(COMMANDS, "time", f"failed: {problem.message}", ok=False))
            return
        if count:
            self._tell(Fired(COMMANDS, "time", f"forgot {count}"))

    def _run(self) -> None:
        while not self._stop.wait(self._tick_seconds):
            try:
                self.tick()
            except (errors.StoreClosed, errors.StoreFailed, errors.ReadOnly) as problem:
                self.failure = type(problem).__name__
                return
            except Exception as problem:  # a reducer is user code; the next tick may succeed
                self._tell(Fired("scheduler", "", f"failed: {type(problem).__name__}", ok=False))
