"""The threads in which the service reads. Half of them are first come, first served; the other half is kept for callers
that use less than their share. A caller who needs more waits, and others pass it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tallystick.server.gate import CALLER, fits

Result = TypeVar("Result")


class Threads:
    """A fixed number of threads, shared by callers. For the tasks of one event loop."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="tallystick-reader")
        self._busy = 0
        self._busy_for: Counter[str] = Counter()
        self._waiting: deque[tuple[str | None, asyncio.Future[None]]] = deque()

    async def run(self, function: Callable[[], Result]) -> Result:
        """Call a function in a thread, as soon as its caller may use one more."""
        caller = CALLER.get()
        if self._may(caller):
            self._take(caller)
        else:
            await self._turn(caller)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function)
        finally:
            self._give_back(caller)

    def close(self) -> None:
        """Start no further calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _may(self, caller: str | None) -> bool:
        return fits(self._busy + 1, None if caller is None else self._busy_for[caller] + 1, self._count)

    def _take(self, caller: str | None) -> None:
        self._busy += 1
        if caller is not None:
            self._busy_for[caller] += 1

    async def _turn(self, caller: str | None) -> None:
        """Wait for a thread. It is reserved when this returns."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(caller)
            raise

    def _give_back(self, caller: str | None) -> None:
        self._busy -= 1
        if caller is not None:
            self._busy_for[caller] -= 1
            if not self._busy_for[caller]:
                del self._busy_for[caller]
        for _ in range(len(self._waiting)):
            if self._busy >= self._count:
                return
            waiting, turn = self._waiting.popleft()
            if turn.done():  # it was cancelled
                continue
            if self._may(waiting):
                self._take(waiting)
                turn.set_result(None)
            else:
                self._waiting.append((waiting, turn))
