"""Following the log over HTTP: a text/event-stream that begins behind a position and does not end by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server import reading
from tallystick.server.access import Principal
from tallystick.server.service import Service
from tallystick.server.tail import FAILED, PAGE_EVENTS, STOPPING, Channel, Follower, frame
from tallystick.store import capabilities
from tallystick.store.selection import Selection

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "connection": "close"}


async def follow(
    service: Service, principal: Principal, selection: Selection, *, after: int | None, over_pruned: bool = False
) -> EventStream:
    """A stream of what is selected behind `after` (None: from now on). What cannot be read is refused here."""
    if capabilities.GLOBAL_ORDER not in service.store.log.capabilities:
        raise errors.UnsupportedCapability(engine=service.store.log.engine, capability=capabilities.GLOBAL_ORDER)
    chosen = reading.scoped(principal, selection)
    begin = await service.run(service.store.head) if after is None else after
    channel = Channel(chosen, principal.org is not None)
    stream = EventStream(service, channel, begin, over_pruned=over_pruned)
    try:
        stream.first = await service.run(stream.read)
    except BaseException:
        stream.leave()
        raise
    return stream


class EventStream(Response):
    """The answer to one follower."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, channel: Channel, after: int, *, over_pruned: bool) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service = service
        self._channel = channel
        self._after = after
        self._over_pruned = over_pruned
        self._follower: Follower = service.tail.follower(channel)
        self.first = b""

    def read(self) -> bytes:
        """The next page behind what was sent, as messages."""
        selection = self._channel.selection
        page = reading.page_for(
            self._service,
            selection.org if self._channel.is_tenants else None,
            after=self._after,
            until=reading.bounded(self._service, selection, self._after, None),
            selection=selection,
            limit=PAGE_EVENTS,
            over_pruned=self._over_pruned,
        )
        hidden = self._service.is_infrastructure if self._channel.is_tenants else _nothing
        self._after = max(page.through, self._after)
        return b"".join([frame(event) for event in page.events if not hidden(event.stream)])

    def leave(self) -> None:
        """Make room for another follower."""
        self._service.tail.leave(self._follower)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader leaves, is too slow, or the service stops."""
        gone = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait([gone, sending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leave()
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, b": following\n\n" + self.first)
        farewell = await self._catch_up(send)
        if not farewell:
            farewell = await self._keep_up(send)
        await send({"type": "http.response.body", "body": farewell, "more_body": False})

    async def _catch_up(self, send: Send) -> bytes:
        """Read on by itself until the tail is reached; what to say if that cannot be."""
        while not self._service.tail.join(self._follower, self._after):
            if self._service.draining:
                return STOPPING
            try:
                chunk = await self._service.in_thread(self.read)
            except (errors.TallyError, OSError):
                return FAILED
            await _body(send, chunk or self._beat())
        return b""

    async def _keep_up(self, send: Send) -> bytes:
        """Send what the tail gives; what to say at the end."""
        follower = self._follower
        while True:
            chunk = await follower.next(self._service.limits.heartbeat_seconds)
            if chunk or not follower.farewell:
                await _body(send, chunk or self._beat())
            if follower.farewell:
                return follower.farewell

    def _beat(self) -> bytes:
        """A sign of life. It moves the id on, so that who is let nothing through does not search it all again."""
        follower = self._follower
        reached = max(self._service.tail.position, follower.after) if follower.joined else self._after
        return b": alive\nid: %d\n\n" % reached


def _nothing(stream: str) -> bool:
    return False


async def _body(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
