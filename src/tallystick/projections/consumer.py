"""A consumer: an effect outside of the store for every event. At least once, in order, never skipped.

The checkpoint is saved after the effect, so a crash repeats the effects since the last save. The effect must tolerate
that, for example by remembering the event's id. An event that keeps failing is parked as a dead letter, and the
consumer continues with the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event
from tallystick.projections.lag import Lag, lag_at
from tallystick.projections.places import require_order
from tallystick.store.deadletters import DeadLetter
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.store import Store

BATCH_EVENTS = 1000
WAIT_SECONDS = 1.0

Handler = Callable[[Event], Any]


class Consumer:
    """Calls `handler` for every selected event. If several processes run one consumer, effects repeat more often."""

    def __init__(
        self,
        store: Store,
        name: str,
        handler: Handler,
        *,
        selection: Selection = EVERYTHING,
        attempts: int = 3,
        retry_ms: int = 100,
        save_every: int = 100,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        require_order(store)
        for what, value, least in (("attempts", attempts, 1), ("retry_ms", retry_ms, 0), ("save_every", save_every, 1)):
            if type(value) is not int or value < least:
                raise errors.InvalidValue(what=what, value=names.display(value), must=f"a number from {least} on")
        self.store = store
        self.name = names.check_label("consumer name", name)
        self._handler = handler
        self._selection = selection
        self._attempts = attempts
        self._retry_ms = retry_ms
        self._save_every = save_every
        self._sleep = sleep

    def position(self) -> int:
        """The checkpoint: all effects up to it have happened. One of another history raises `WrongStore`."""
        return self.store.load_checkpoint(self.name)

    def step(self, *, until: int | None = None) -> int:
        """Handle one batch; the position of the consumer after it."""
        after = saved = self.position()
        page = self.store.read(after=after, until=until, selection=self._selection, limit=BATCH_EVENTS)
        for done, event in enumerate(page.events, start=1):
            self._handle(event)
            if done % self._save_every == 0:
                saved = self._save(event.position, saved)
        return self._save(page.through, saved)

    def _save(self, position: int, saved: int) -> int:
        """Save the position; the checkpoint after that, which another process or an operator may have moved."""
        while position > saved:
            try:
                self.store.save_checkpoint(self.name, position, previous=saved)
                return position
            except errors.Conflict as moved:
                if moved.actual < saved:
                    return moved.actual
                saved = moved.actual
        return saved

    def _handle(self, event: Event) -> None:
        for attempt in range(1, self._attempts + 1):
            try:
                self._handler(event)
                return
            except Exception as problem:
                if attempt == self._attempts:
                    self._park(event, problem)
                else:
                    self._sleep(self._retry_ms * 2 ** (attempt - 1) / 1000)

    def _park(self, event: Event, problem: Exception) -> None:
        letter = DeadLetter(
            self.name,
            event.position,
            event.stream,
            event.seq,
            event.type,
            self._attempts,
            self.store.clock(),
            errors.reason_of(problem),
        )
        self.store.log.dead_letters.park(letter)

    def catch_up(self, *, until: int | None = None) -> int:
        """Handle everything up to `until`, or to the head of now."""
        head = self.store.head()
        end = head if until is None else min(until, head)
        while (reached := self.step(until=end)) < end:
            pass
        return reached

    def follow(self, *, stopped: Callable[[], bool]) -> int:
        """Catch up, and handle new events as they come, until `stopped()` is true."""
        reached = self.catch_up()
        while not stopped():
            if self.store.wait(reached, timeout=WAIT_SECONDS) > reached:
                reached = self.catch_up()
        return reached

    def lag(self) -> Lag:
        """How far the consumer is behind the log."""
        return lag_at(self.store, self.position())
