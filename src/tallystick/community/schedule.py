"""When things are due, as plain functions of a clock: rounds of gossip, and the daily snapshot.

The time of the next snapshot is stored, so that a node that was off at that hour catches up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tallystick import errors
from tallystick.community import config

Result = TypeVar("Result")

INTERVAL_S = 300.0
EMERGENCY_INTERVAL_S = 30.0
SNAPSHOT_HOUR = 3
RETRY = timedelta(minutes=10)


class Schedule(msgspec.Struct):
    """The schedule of one node. In emergency mode rounds are frequent, and only with local peers."""

    interval_s: float = INTERVAL_S
    emergency_interval_s: float = EMERGENCY_INTERVAL_S
    snapshot_hour: int = SNAPSHOT_HOUR
    emergency: bool = False

    @property
    def wait_s(self) -> float:
        """The seconds between two rounds."""
        return self.emergency_interval_s if self.emergency else self.interval_s

    def next_snapshot(self, now: datetime) -> datetime:
        """When the next snapshot is due, in the local time of `now`."""
        today = now.replace(hour=self.snapshot_hour, minute=0, second=0, microsecond=0)
        return today if today > now else today + timedelta(days=1)


class Ticker:
    """Fires rounds and snapshots on a given clock: `tick(now)` does what is due since the last one.

    With a directory, the time of the next snapshot is stored there. A snapshot that fails is retried every ten minutes
    until it succeeds.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        round: Callable[[bool], Awaitable[None]],
        snapshot: Callable[[], Awaitable[None]],
        directory: Path | None = None,
        failed: Callable[[Exception], None] = lambda problem: None,
    ) -> None:
        self._directory = directory
        self._failed = failed
        self.schedule = schedule
        self._round = round
        self._snapshot = snapshot
        self._last_round: datetime | None = None
        self._next_snapshot: datetime | None = None

    async def tick(self, now: datetime) -> None:
        """Do what is due. The round gets a flag that says whether only local peers may take part."""
        if self._next_snapshot is None:
            self._next_snapshot = self._planned(now)
        if self._last_round is None or (now - self._last_round).total_seconds() >= self.schedule.wait_s:
            self._last_round = now
            await self._round(self.schedule.emergency)
        if now >= self._next_snapshot:
            try:
                await self._snapshot()
            except (errors.TallyError, OSError) as problem:
                self._next_snapshot = now + RETRY
                self._failed(problem)
            else:
                self._next_snapshot = self._plan(now)

    def _planned(self, now: datetime) -> datetime:
        """The time planned before this process started. A future one is computed again if the hour has changed."""
        due = None if self._directory is None else config.read_due(self._directory)
        if due is not None and (due.hour == self.schedule.snapshot_hour or due.at <= now):
            return due.at
        return self._plan(now)

    def _plan(self, now: datetime) -> datetime:
        found = self.schedule.next_snapshot(now)
        if self._directory is not None:
            config.save_due(self._directory, config.NextDailyWork(found, self.schedule.snapshot_hour))
        return found


class HasTick(Protocol):
    """A ticker that runs next to a server."""

    @property
    def schedule(self) -> Schedule: ...
    async def tick(self, now: datetime) -> None: ...


async def beside(
    serving: Coroutine[Any, Any, None],
    ticker: HasTick,
    *,
    now: Callable[[], datetime],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Run a ticker while a server runs. `look` is called every second, because other processes may have written."""
    server = asyncio.ensure_future(serving)
    try:
        while not server.done():
            await asyncio.to_thread(look)
            await ticker.tick(now())
            await asyncio.wait([server], timeout=min(ticker.schedule.wait_s, 1.0))
    finally:
        server.cancel()
        with suppress(asyncio.CancelledError):
            await server


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, from a thread with or without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside_it:
        return beside_it.submit(asyncio.run, work).result()
