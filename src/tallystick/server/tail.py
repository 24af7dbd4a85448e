"""The end of the log, watched once for all who follow it. An event is encoded once, whoever gets it.

The tail begins at the head and reads on from there, whatever its followers ask for. A follower reads by itself until it
has caught up with the tail, and joins it there: both happen in the event loop, so nothing lies between. From then on it
gets what the tail reads, through a queue of bounded bytes. One that does not empty its queue in time is disconnected,
and comes back with the id of the last event it got.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from tallystick import errors
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.server.gate import Admission
from tallystick.store.selection import Selection

if TYPE_CHECKING:
    from tallystick.server.service import Service

WAIT_SECONDS = 1.0
AHEAD_SECONDS = 1.0  # a position that was just acknowledged may be a little past the head that readers see
PAUSE_SECONDS = 0.02  # what comes within it goes out together
PAGE_EVENTS = 1000
STEP_EVENTS = 16  # large events are read a few at a time
STEP_BYTES = 256 << 10
SEND_BYTES = 64 << 10  # what a follower has under way at a time; the rest of its queue it shares with the others
SLOW = b": sent off: too slow, resume from the last id\n\n"
STOPPING = b": the service is stopping, resume from the last id\n\n"
FAILED = b": reading failed, resume from the last id\n\n"
REFUSED = b": the token is not accepted any more\n\n"


class Channel(msgspec.Struct, frozen=True):
    """What a group of followers gets. The selection of a tenant holds its org; the infrastructure is not for it."""

    selection: Selection
    is_tenants: bool


class Follower:
    """One that follows: what it has not been sent yet, and whether it is over."""

    def __init__(self, channel: Channel, admission: Admission, *, bytes_max: int) -> None:
        self.channel = channel
        self.admission = admission
        self.after = 0
        self.joined = False
        self.farewell = b""
        self._bytes_max = bytes_max
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    def give(self, frames: list[bytes], size: int) -> bool:
        """Queue messages of this size to be sent; False if that is too much.

        One that is leaving gets no more: there may be a gap. One that has sent everything gets the next messages of any
        size, else it never could go on.
        """
        if self.farewell:
            return True
        if self._waiting and (self._bytes + size > self._bytes_max or not self.admission.has_room(size)):
            return False
        self._count(size)
        self._waiting.extend(frames)
        self._news.set()
        return True

    def _count(self, size: int) -> None:
        self._bytes += size
        self.admission.change(size)

    def end(self, farewell: bytes) -> None:
        """Nothing more comes but this."""
        if not self.farewell:
            self.farewell = farewell
            if farewell is SLOW:
                self._waiting.clear()
                self._count(-self._bytes)
            self._news.set()

    @property
    def has_more(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._waiting)

    async def next(self, seconds: float) -> bytes:
        """Some of what there is to send, as soon as there is something; empty when the time is up."""
        if not self._waiting and not self.farewell:
            with contextlib.suppress(TimeoutError):  # something may have come all the same before this task went on
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        taken: list[bytes] = []
        size = 0
        while self._waiting and size < SEND_BYTES:
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._count(-size)
        if not self._waiting:
            self._news.clear()
        return b"".join(taken)


class Tail:
    """Reads new events as they come while somebody follows."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[Channel, set[Follower]] = {}
        self._task: asyncio.Task[None] | None = None
        self.position = 0
        self.cursor = ""

    def follower(self, channel: Channel) -> Follower:
        """One more that will follow; `Overloaded` if there are too many, `Draining` at the end."""
        if self._service.draining:
            raise errors.Draining()
        admission = self._service.followers.enter()
        self._service.meter.followers(self.count)
        return Follower(channel, admission, bytes_max=self._service.limits.follower_bytes_max)

    @property
    def count(self) -> int:
        """How many follow."""
        return self._service.followers.count

    async def head_at(self, position: int) -> int:
        """The head, as soon as it is at or after a position; `PositionAhead` if that takes too long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + AHEAD_SECONDS
        while (head := await self._service.in_thread(self._service.store.head)) < position:
            if loop.time() >= until:
                raise errors.PositionAhead(position=position, head=head)
            await asyncio.sleep(PAUSE_SECONDS)
        return head

    async def begin(self) -> None:
        """Read from the head on, if nothing is read yet."""
        if self._is_running:
            return
        head, cursor = await self._service.in_thread(self._end)
        if not self._is_running:
            self.position, self.cursor = head, cursor
            shared = contextvars.Context()  # it reads for all: not in the share of the caller who came first
            self._task = asyncio.get_running_loop().create_task(self._run(), context=shared)

    def _end(self) -> tuple[int, str]:
        head = self._service.store.head()
        return head, self._service.store.cursor(head)

    @property
    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def join(self, follower: Follower, after: int) -> bool:
        """Get everything behind `after` from now on; False if the tail is further already: read on, and try again."""
        if after < self.position or not self._is_running:
            return False
        follower.after, follower.joined = after, True
        self._channels.setdefault(follower.channel, set()).add(follower)
        if self._service.draining:
            follower.end(STOPPING)
        return True

    def leave(self, follower: Follower) -> None:
        """It is gone."""
        follower.admission.leave()
        self._service.meter.followers(self.count)
        self._forget(follower)

    def _forget(self, follower: Follower) -> None:
        group = self._channels.get(follower.channel)
        if group is not None:
            group.discard(follower)
            if not group:
                del self._channels[follower.channel]

    def close(self) -> None:
        """Send everybody off."""
        for follower in self._followers():
            follower.end(STOPPING)

    async def stop(self) -> None:
        """Wait until nothing is read any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _followers(self) -> list[Follower]:
        return [follower for group in self._channels.values() for follower in group]

    async def _run(self) -> None:
        try:
            while self.count:
                await self._service.in_thread(self._service.store.wait, self.position, timeout=WAIT_SECONDS)
                await self._step()
                await asyncio.sleep(PAUSE_SECONDS)
        except Exception:  # whatever it was: they come back, and reading says what it is
            for follower in self._followers():
                follower.end(FAILED)

    async def _step(self) -> None:
        """Read what is new, and hand it round."""
        after = self.position
        found, frames, through, cursor = await self._service.in_thread(self._read, after)
        for channel, group in list(self._channels.items()):
            chosen = _choose(self._service, channel, found)
            new = [frames[index] for index in chosen]
            size = sum(map(len, new))
            for follower in list(group):
                if follower.after <= after:
                    self._hand(follower, new, size)
                else:  # it was ahead of the tail when it joined
                    left = [frames[index] for index in chosen if found[index].position > follower.after]
                    self._hand(follower, left, sum(map(len, left)))
        self.position, self.cursor = through, cursor

    def _read(self, after: int) -> tuple[list[Event], list[bytes], int, str]:
        store, cursor = self._service.store, self.cursor
        found: list[Event] = []
        frames: list[bytes] = []
        size, step = 0, STEP_EVENTS
        while True:
            page = store.read(after=after, limit=step, over_pruned=True)
            found += page.events
            frames += [frame(store.cursor(event), event) for event in page.events]
            size += sum(map(len, frames[-len(page.events) :] if page.events else ()))
            if page.through > after:
                after = page.through
                is_event = bool(page.events) and page.events[-1].position == after
                cursor = store.cursor(page.events[-1] if is_event else after)
            if len(page.events) < step or size >= STEP_BYTES or len(found) >= PAGE_EVENTS:
                return found, frames, after, cursor
            step = min(step * 2, PAGE_EVENTS)

    def _hand(self, follower: Follower, frames: list[bytes], size: int) -> None:
        if frames and not follower.give(frames, size):
            follower.end(SLOW)
            self._forget(follower)
            self._service.meter.dropped()


def _choose(service: Service, channel: Channel, found: list[Event]) -> list[int]:
    """Which of the events a channel gets."""
    if channel.selection.is_everything:
        return list(range(len(found)))
    wanted = channel.selection.predicate()
    return [
        index
        for index, event in enumerate(found)
        if wanted(event) and not (channel.is_tenants and service.visibility.is_infrastructure(event.stream))
    ]


def frame(cursor: str, event: Event) -> bytes:
    """An event as one message of a text/event-stream; its id is its cursor."""
    return f"id: {cursor}\ndata: {line(event)}\n\n".encode()
