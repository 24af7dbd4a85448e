"""Group commit for tasks: one writer thread commits all waiting requests together, and answers each task."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from tallystick import errors
from tallystick.store.commit import Appended, Outcome
from tallystick.store.prepare import Request
from tallystick.store.store import Store

GROUP_REQUESTS_MAX = 4096
PENDING_MAX = 65_536


class WriterThread:
    """The writer thread. Tasks put requests into its queue; it takes all that wait, and submits them as one group."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, *, window_seconds: float) -> None:
        self._store = store
        self._loop = loop
        self._window_seconds = window_seconds
        self._queue: deque[tuple[Request, asyncio.Future[list[Appended]]]] = deque()
        self._work = threading.Event()
        self._room: asyncio.Event = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tallystick-writer", daemon=True)
        self._thread.start()

    async def room(self) -> None:
        """Wait while the queue is full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def enqueue(self, request: Request) -> asyncio.Future[list[Appended]]:
        """Add a request to the queue; the future gets its outcome."""
        if self._closing:
            raise errors.StoreClosed()
        done: asyncio.Future[list[Appended]] = self._loop.create_future()
        self._queue.append((request, done))
        if not self._work.is_set():
            self._work.set()
        return done

    @property
    def waiting(self) -> int:
        """The number of requests in the queue."""
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether the queue is full."""
        return len(self._queue) >= PENDING_MAX

    def refuse(self) -> None:
        """Take no more requests. Call it in the loop's thread, so that the writer does not miss a last one."""
        self._closing = True
        self._work.set()

    def close(self) -> None:
        """Commit the requests in the queue, and stop the thread. Call `refuse` first."""
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.wait()
            if self._window_seconds and not self._closing:
                time.sleep(self._window_seconds)
            self._work.clear()
            while group := [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_REQUESTS_MAX))]:
                self._commit(group)
            if self._closing and not self._queue:
                return

    def _commit(self, group: list[tuple[Request, asyncio.Future[list[Appended]]]]) -> None:
        outcomes: Sequence[Outcome | BaseException]
        try:
            outcomes = self._store.submit([request for request, _ in group])
        except BaseException as failure:  # every task must get an answer, whatever happens
            outcomes = [errors.copy(failure) for _ in group]
        answers = list(zip([done for _, done in group], outcomes, strict=True))
        try:
            self._loop.call_soon_threadsafe(self._answer, answers)
        except RuntimeError:  # the loop was closed, so no task waits any more
            return

    def _answer(self, answers: list[tuple[asyncio.Future[list[Appended]], Any]]) -> None:
        for done, outcome in answers:
            if done.cancelled():
                continue
            if isinstance(outcome, BaseException):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)
        if not self._room.is_set():
            self._room.set()
