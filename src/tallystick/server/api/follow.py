"""Following the log live, by server-sent events: a text/event-stream that starts after a position and stays open.

It ends when the client leaves or reads too slowly, when the service stops, and when the caller may not read any more:
the service checks that again every few seconds, in the same way as at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request, Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Need, Principal, Reader, authorise
from tallystick.server.api import shapes
from tallystick.server.api.log_page import Asked, cursor_at, page
from tallystick.server.api.parameters import Chosen, MaybeAfter, service_of
from tallystick.server.gate import Entry
from tallystick.server.service import Service
from tallystick.server.tail import (
    FAILED,
    PAGE_EVENTS,
    PAUSE_SECONDS,
    REFUSED,
    SEND_BYTES,
    STEP_BYTES,
    STOPPING,
    Channel,
    Follower,
    frame,
)
from tallystick.store import capabilities, cursors

router = APIRouter(tags=["read"])

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "connection": "close"}
FULL_SECONDS = 0.02
ROOM_SECONDS = 5.0
FAREWELL_SECONDS = 1.0

Again = Callable[[], Awaitable[Principal]]
"""Who asks, asked once more; an error if they may not do this now."""


@router.get(
    "/v1/follow",
    responses=shapes.answers(
        200, {"type": "string"}, 401, 403, 404, 409, 410, 422, 429, 501, 503, media="text/event-stream"
    ),
)
async def follow(
    request: Request,
    who: Reader,
    selection: Chosen,
    after: MaybeAfter = None,
    over_pruned: bool = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Events as they come, each with its cursor as id. Resumes from Last-Event-ID, else begins behind `after`.

    Without either it begins now.
    """
    begin = after if last_event_id is None else last_event_id
    service = service_of(request)
    asked = Asked(after=0 if begin is None else begin, selection=selection, over_pruned=over_pruned)
    again = partial(authorise, service, request.scope, Need.READ)
    return await _follow(service, who, asked, from_now=begin is None, again=again)


async def _follow(service: Service, principal: Principal, asked: Asked, *, from_now: bool, again: Again) -> EventStream:
    """A stream of what is asked for, or of what comes from now on. What cannot be read is refused here."""
    if capabilities.GLOBAL_ORDER not in service.store.log.capabilities:
        raise errors.UnsupportedCapability(engine=service.store.log.engine, capability=capabilities.GLOBAL_ORDER)
    chosen = msgspec.structs.replace(
        asked, selection=service.visibility.scoped(principal, asked.selection), limit=PAGE_EVENTS
    )
    with service.waits.enter():
        after = 0 if from_now else position_of(asked.after)
        head = await service.tail.head_at(after)
    if from_now:
        chosen = msgspec.structs.replace(chosen, after=head)
    stream = EventStream(service, principal, chosen, again=again)
    try:
        await stream.begin()
    except BaseException:
        stream.leave()
        raise
    return stream


def position_of(after: int | str) -> int:
    """Where a reader wants to go on, not looked at yet."""
    return after if isinstance(after, int) else cursors.parse(after).position


class EventStream(Response):
    """The answer to one follower."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, principal: Principal, asked: Asked, *, again: Again) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service = service
        self._principal = principal
        self._asked = asked
        self._again = again
        self._after = 0
        self._cursor = ""
        channel = Channel(asked.selection, principal.org is not None)
        self._follower: Follower = service.tail.follower(channel)
        self._page: bytes = b""
        self._entry: Entry | None = None

    async def begin(self) -> None:
        """Read the first page, so that a refusal is an answer of its own. It waits for room: many may come at once."""
        until = asyncio.get_running_loop().time() + ROOM_SECONDS
        while True:
            try:
                self._entry = self._service.reads.enter()
                return await self._read(self._entry)
            except errors.Overloaded:
                self._release()
                if asyncio.get_running_loop().time() >= until:
                    raise
                await asyncio.sleep(FULL_SECONDS)

    async def _read(self, entry: Entry) -> None:
        """Read the next page behind what was sent. It takes its room until it was sent."""
        page, through, cursor = await self._service.in_thread(self._read_page)
        entry.grow(len(page))
        self._page, self._after, self._cursor = page, through, cursor
        self._asked = msgspec.structs.replace(self._asked, after=through)

    def _read_page(self) -> tuple[bytes, int, str]:
        store = self._service.store
        found, through, _ = page(self._service, self._principal, self._asked, bytes_max=STEP_BYTES)
        cursor = cursor_at(self._service, self._asked, found, through)
        return b"".join(frame(store.cursor(event), event) for event in found), through, cursor

    def leave(self) -> None:
        """Make room for another follower."""
        self._release()
        self._service.tail.leave(self._follower)

    def _release(self) -> None:
        entry, self._entry, self._page = self._entry, None, b""
        if entry is not None:
            entry.leave()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader leaves, is too slow or may not read any more, or the service stops."""
        gone = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(self._send(send))
        refused = asyncio.ensure_future(self._refused())
        try:
            await asyncio.wait([gone, sending, refused], return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_over = gone.done() or sending.done()
            for task in (gone, sending, refused):
                task.cancel()
            await asyncio.gather(gone, sending, refused, return_exceptions=True)
            self.leave()
        if not is_over:
            await _farewell(send, refused.result())

    async def _refused(self) -> bytes:
        """Ask again and again whether the reader may read; what to say when they may not."""
        while True:
            await asyncio.sleep(self._service.limits.authorise_seconds)
            try:
                if await self._again() != self._principal:
                    return REFUSED
            except errors.Refused:
                return REFUSED
            except (errors.TallyError, OSError):
                return FAILED  # nobody can say whether they may

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, b": following\n\n" + self._page)
        self._release()
        farewell = await self._catch_up(send)
        if not farewell:
            farewell = await self._keep_up(send)
        await send({"type": "http.response.body", "body": farewell, "more_body": False})

    async def _catch_up(self, send: Send) -> bytes:
        """Read on by itself until the tail is reached; what to say if that cannot be."""
        tail = self._service.tail
        try:
            await tail.begin()
            while not tail.join(self._follower, self._after):
                if self._service.draining:
                    return STOPPING
                await self._send_page(send)
                await tail.begin()
        except (errors.TallyError, OSError):
            return FAILED
        return b""

    async def _send_page(self, send: Send) -> None:
        """One more page. While there is no room for it, or nothing to see yet, wait a little."""
        before = self._after
        try:
            self._entry = self._service.reads.enter()
            await self._read(self._entry)
        except errors.Overloaded:
            self._release()
            await asyncio.sleep(FULL_SECONDS)
            return
        if self._after > before:
            await _body(send, self._page or self._beat())
        self._release()
        if self._after == before:
            await asyncio.sleep(PAUSE_SECONDS)

    async def _keep_up(self, send: Send) -> bytes:
        """Send what the tail gives; what to say at the end."""
        follower = self._follower
        while True:
            chunk = await follower.next(self._service.limits.heartbeat_seconds)
            if chunk or not follower.farewell:
                await _body(send, chunk or self._beat())
            if follower.farewell and not follower.has_more:
                return follower.farewell

    def _beat(self) -> bytes:
        """A sign of life. It moves the id on, so that a filter that finds nothing need not search it all again."""
        follower = self._follower
        tail = self._service.tail
        reached = tail.cursor if follower.joined and tail.position > follower.after else self._cursor
        return b": alive\nid: %b\n\n" % reached.encode()


async def _body(send: Send, chunk: bytes) -> None:
    """Send a chunk in pieces, so that little of it waits in the connection's own buffer."""
    for start in range(0, len(chunk), SEND_BYTES):
        piece = chunk if len(chunk) <= SEND_BYTES else chunk[start : start + SEND_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _farewell(send: Send, farewell: bytes) -> None:
    """End the stream, if the reader still takes anything."""
    try:
        async with asyncio.timeout(FAREWELL_SECONDS):
            await send({"type": "http.response.body", "body": farewell, "more_body": False})
    except TimeoutError:
        return


async def _disconnected(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
