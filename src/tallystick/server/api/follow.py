"""Following the log live, by server-sent events: a text/event-stream that starts after a position and stays open.

It ends when the client leaves or reads too slowly, when the service stops, and when the caller may not read any more:
the service checks that again every few seconds, in the same way as at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server.access import Need, Principal, authorise
from tallystick.server.api.log_page import EventQuery, cursor_at, read_page
from tallystick.server.api.parameters import After, Filters
from tallystick.server.gate import Admission
from tallystick.server.http.route import HttpRequest, Responses, Routes
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

routes = Routes("read")

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "connection": "close"}
FULL_SECONDS = 0.02
ROOM_SECONDS = 5.0
FAREWELL_SECONDS = 1.0
LAST_EVENT_ID: dict[str, Any] = {
    "name": "last-event-id",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
}

Again = Callable[[], Awaitable[Principal]]
"""Authorise the caller again; raises an error if they may not do this now."""


@routes.get(
    "/v1/follow",
    Need.READ,
    Responses(str, (401, 403, 404, 409, 410, 422, 429, 501, 503), media="text/event-stream"),
    headers=(LAST_EVENT_ID,),
)
async def follow(
    request: HttpRequest, filters: Filters, after: After | None = None, over_pruned: bool = False
) -> Response:
    """Events as they arrive, each with its cursor as id. Resumes after Last-Event-ID, or starts after `after`.

    Without either it starts now.
    """
    begin = request.headers.get("last-event-id", after)
    query = EventQuery(after=0 if begin is None else begin, selection=filters.selection, over_pruned=over_pruned)
    again = partial(authorise, request.service, request.scope, Need.READ)
    return await _follow(request.service, request.principal, query, from_now=begin is None, again=again)


async def _follow(
    service: Service, principal: Principal, query: EventQuery, *, from_now: bool, again: Again
) -> EventStream:
    """A stream of what the query selects, or of what arrives from now on. It refuses a query that cannot be read."""
    if capabilities.GLOBAL_ORDER not in service.store.log.capabilities:
        raise errors.UnsupportedCapability(engine=service.store.log.engine, capability=capabilities.GLOBAL_ORDER)
    selection = service.visibility.scoped(principal, query.selection)
    chosen = msgspec.structs.replace(query, selection=selection, limit=PAGE_EVENTS)
    with service.waits.enter():
        after = 0 if from_now else _position_of(query.after)
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


def _position_of(after: int | str) -> int:
    """The position that a reader wants to continue after, not checked yet."""
    return after if isinstance(after, int) else cursors.parse(after).position


class EventStream(Response):
    """The response to one follower."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, principal: Principal, query: EventQuery, *, again: Again) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service = service
        self._principal = principal
        self._query = query
        self._again = again
        self._after = 0
        self._cursor = ""
        channel = Channel(query.selection, principal.org is not None)
        self._follower: Follower = service.tail.follower(channel)
        self._page: bytes = b""
        self._admission: Admission | None = None

    async def begin(self) -> None:
        """Read the first page, so that a refusal gets its own status. This waits for room: many may come at once."""
        until = asyncio.get_running_loop().time() + ROOM_SECONDS
        while True:
            try:
                self._admission = self._service.reads.enter()
                return await self._read(self._admission)
            except errors.Overloaded:
                self._release()
                if asyncio.get_running_loop().time() >= until:
                    raise
                await asyncio.sleep(FULL_SECONDS)

    async def _read(self, admission: Admission) -> None:
        """Read the next page. It takes room among the reads until it was sent."""
        page, through, cursor = await self._service.in_thread(self._read_page)
        admission.grow(len(page))
        self._page, self._after, self._cursor = page, through, cursor
        self._query = msgspec.structs.replace(self._query, after=through)

    def _read_page(self) -> tuple[bytes, int, str]:
        store = self._service.store
        found, through, _ = read_page(self._service, self._principal, self._query, bytes_max=STEP_BYTES)
        cursor = cursor_at(self._service, self._query, found, through)
        return b"".join(frame(store.cursor(event), event) for event in found), through, cursor

    def leave(self) -> None:
        """Make room for another follower."""
        self._release()
        self._service.tail.leave(self._follower)

    def _release(self) -> None:
        admission, self._admission, self._page = self._admission, None, b""
        if admission is not None:
            admission.leave()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves or is too slow, the caller may not read any more, or the service stops."""
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
        """Check every few seconds whether the caller may still read. Returns the farewell when they may not."""
        while True:
            await asyncio.sleep(self._service.limits.authorise_seconds)
            try:
                if await self._again() != self._principal:
                    return REFUSED
            except errors.Refused:
                return REFUSED
            except (errors.TallyError, OSError):
                return FAILED  # it is unknown whether they may

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, b": following\n\n" + self._page)
        self._release()
        farewell = await self._catch_up(send)
        if not farewell:
            farewell = await self._keep_up(send)
        await send({"type": "http.response.body", "body": farewell, "more_body": False})

    async def _catch_up(self, send: Send) -> bytes:
        """Read pages until this follower joins the tail. Returns a farewell if it cannot; otherwise nothing."""
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
        """Send one more page. If there is no room for it, or nothing new, wait a little."""
        before = self._after
        try:
            self._admission = self._service.reads.enter()
            await self._read(self._admission)
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
        """Send what the tail gives. Returns the farewell."""
        follower = self._follower
        while True:
            chunk = await follower.next(self._service.limits.heartbeat_seconds)
            if chunk or not follower.farewell:
                await _body(send, chunk or self._beat())
            if follower.farewell and not follower.has_more:
                return follower.farewell

    def _beat(self) -> bytes:
        """A heartbeat. It advances the id, so that a client with a rare filter does not scan the log again."""
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
    """End the stream, if the client still reads."""
    try:
        async with asyncio.timeout(FAREWELL_SECONDS):
            await send({"type": "http.response.body", "body": farewell, "more_body": False})
    except TimeoutError:
        return


async def _disconnected(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
