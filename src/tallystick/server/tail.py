"""The end of the log, read once for all followers. Each event is encoded once for all of them.

The tail starts at the head and reads from there, whatever its followers filter. A follower reads pages on its own until
it has caught up with the tail, and joins it there. Both happen in the event loop, so there is no gap. From then on it
gets what the tail reads, through a queue of bounded size. A follower whose queue gets full is disconnected; its client
comes back with the id of the last event that it got.
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
PAUSE_SECONDS = 0.02  # events that arrive within it are sent together
PAGE_EVENTS = 1000
STEP_EVENTS = 16  # large events are read in small steps
STEP_BYTES = 256 << 10
SEND_BYTES = 64 << 10  # what one follower sends at a time; the rest of its queue is shared with the others
SLOW = b": disconnected: too slow, resume from the last id\n\n"
STOPPING = b": the service is stopping, resume from the last id\n\n"
FAILED = b": reading failed, resume from the last id\n\n"
REFUSED = b": the token is no longer accepted\n\n"


class Channel(msgspec.Struct, frozen=True):
    """What a group of followers gets. The selection of a tenant names its org; tenants get no infrastructure."""

    selection: Selection
    is_tenants: bool


class Follower:
    """One follower: what it was not sent yet, and whether it ends."""

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
        """Queue messages of this size; False if that is too much.

        A follower that ends gets no more messages, because some may be missing before them. A follower whose queue is
        empty gets the next messages whatever their size; otherwise it could never continue.
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
        """Send this as the last message."""
        if not self.farewell:
            self.farewell = farewell
            if farewell is SLOW:
                self._waiting.clear()
                self._count(-self._bytes)
            self._news.set()

    @property
    def has_more(self) -> bool:
        """Whether messages wait to be sent."""
        return bool(self._waiting)

    async def next(self, seconds: float) -> bytes:
        """Some of the messages to send, as soon as there are any; empty when the time is over."""
        if not self._waiting and not self.farewell:
            with contextlib.suppress(TimeoutError):  # messages may have arrived before this task continued
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


class LogTail:
    """Reads new events while there are followers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[Channel, set[Follower]] = {}
        self._task: asyncio.Task[None] | None = None
        self.position = 0
        self.cursor = ""

    def follower(self, channel: Channel) -> Follower:
        """A new follower; `Overloaded` if there are too many, `Draining` if the service stops."""
        if self._service.draining:
            raise errors.Draining()
        admission = self._service.followers.enter()
        self._service.metrics.followers(self.count)
        return Follower(channel, admission, bytes_max=self._service.limits.follower_bytes_max)

    @property
    def count(self) -> int:
        """The number of followers."""
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
        """Start to read at the head, unless it reads already."""
        if self._is_running:
            return
        head, cursor = await self._service.in_thread(self._end)
        if not self._is_running:
            self.position, self.cursor = head, cursor
            shared = contextvars.Context()  # it reads for all, so it must not use the share of the first caller
            self._task = asyncio.get_running_loop().create_task(self._run(), context=shared)

    def _end(self) -> tuple[int, str]:
        head = self._service.store.head()
        return head, self._service.store.cursor(head)

    @property
    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def join(self, follower: Follower, after: int) -> bool:
        """Get everything after `after` from now on. False if the tail is further: read another page, and try again."""
        if after < self.position or not self._is_running:
            return False
        follower.after, follower.joined = after, True
        self._channels.setdefault(follower.channel, set()).add(follower)
        if self._service.draining:
            follower.end(STOPPING)
        return True

    def leave(self, follower: Follower) -> None:
        """Remove a follower that has left."""
        follower.admission.leave()
        self._service.metrics.followers(self.count)
        self._forget(follower)

    def _forget(self, follower: Follower) -> None:
        group = self._channels.get(follower.channel)
        if group is not None:
            group.discard(follower)
            if not group:
                del self._channels[follower.channel]

    def close(self) -> None:
        """Disconnect all followers."""
        for follower in self._followers():
            follower.end(STOPPING)

    async def stop(self) -> None:
        """Stop reading, and wait for that."""
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
        except Exception:  # the clients come back, and reading reports the error
            for follower in self._followers():
                follower.end(FAILED)

    async def _step(self) -> None:
        """Read new events, and give them to the followers."""
        after = self.position
        found, frames, through, cursor = await self._service.in_thread(self._read, after)
        for channel, group in list(self._channels.items()):
            chosen = _choose(self._service, channel, found)
            new = [frames[index] for index in chosen]
            size = sum(map(len, new))
            for follower in list(group):
                if follower.after <= after:
                    self._give(follower, new, size)
                else:  # it was ahead of the tail when it joined
                    left = [frames[index] for index in chosen if found[index].position > follower.after]
                    self._give(follower, left, sum(map(len, left)))
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

    def _give(self, follower: Follower, frames: list[bytes], size: int) -> None:
        if frames and not follower.give(frames, size):
            follower.end(SLOW)
            self._forget(follower)
            self._service.metrics.dropped()


def _choose(service: Service, channel: Channel, found: list[Event]) -> list[int]:
    """The indexes of the events that a channel gets."""
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
