"""The live tail of the events page: new events that pass a filter, as server-sent events.

One thread waits for new events for all followers. The number of followers is bounded.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from tallystick import errors
from tallystick.event.model import Event
from tallystick.server.access import Need
from tallystick.server.console import display, event_filter, render, route
from tallystick.server.console.route import COOKIE, identify
from tallystick.server.http.route import HttpRequest
from tallystick.server.service import Service
from tallystick.store.selection import Selection

PAGE_EVENTS = 200
WAIT_SECONDS = 1.0
FOLLOWERS_MAX = 100

data = route.data()


class News:
    """Waits for the log to grow, once for all followers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: asyncio.Future[int] | None = None
        self._after = 0
        self.followers = 0

    async def wait(self, after: int) -> None:
        """Return when there may be an event after a position, or when the time is over."""
        if self._waiting is None or self._waiting.done() or after < self._after:
            self._after = after
            waiting = self._service.in_thread(self._service.store.wait, after, timeout=WAIT_SECONDS)
            shared = contextvars.Context()  # it waits for all, so it must not use the share of the first caller
            self._waiting = asyncio.get_running_loop().create_task(waiting, context=shared)
            self._waiting.add_done_callback(_ignored)
        await asyncio.wait([self._waiting])


def _ignored(done: asyncio.Future[int]) -> None:
    """Take the error of a wait. The next read raises it again."""
    if not done.cancelled():
        done.exception()


@data.get("/tail")
async def follow(request: HttpRequest, after: int = 0) -> Response:
    """New events as they arrive. Resumes after the last one that the browser got."""
    asked = event_filter.read(dict(request.query_params))
    if asked.problem:
        raise errors.InvalidValue(what="filter", value=asked.wrong[0], must=asked.problem)
    if route.of_app(request, "news", News).followers >= FOLLOWERS_MAX:
        raise errors.Overloaded(what="followers")
    service = request.service
    last = request.headers.get("last-event-id") or str(max(0, after))
    begin = await service.in_thread(service.store.after, last)
    await service.tail.head_at(begin)
    messages = _messages(request, begin, asked.selection)
    return StreamingResponse(messages, media_type="text/event-stream", headers=render.HEADERS)


async def _messages(request: HttpRequest, after: int, selection: Selection) -> AsyncIterator[bytes]:
    """Read from a position. If nothing is new, one comment per second shows whether the client still listens."""
    service = request.service
    news = route.of_app(request, "news", News)
    news.followers += 1
    try:
        yield b": the tail begins\n\n"
        asked = time.monotonic()
        while not service.draining and not await request.is_disconnected():
            if time.monotonic() - asked >= service.limits.authorise_seconds:
                if not await _may_go_on(request):
                    break
                asked = time.monotonic()
            page = await service.in_thread(
                service.store.read,
                after=after,
                selection=selection,
                limit=PAGE_EVENTS,
                over_holes=True,
                over_pruned=True,
            )
            if page.events:
                yield b"".join(message(service.store.cursor(event), event) for event in page.events)
            if page.through <= after:
                await news.wait(after)
                yield b": nothing new\n\n"
            after = page.through
    finally:
        news.followers -= 1


async def _may_go_on(request: HttpRequest) -> bool:
    """Whether the operator may still look."""
    try:
        await identify(request, request.cookies.get(COOKIE), Need.ADMIN)
    except (errors.TallyError, OSError):
        return False
    return True


def message(cursor: str, event: Event) -> bytes:
    """One line of the list, as a message. Its id is its cursor."""
    summary = {
        "position": event.position,
        "type": event.type,
        "stream": event.stream,
        "seq": event.seq,
        "glance": display.glance(event.payload),
        "time": display.moment(event.time),
        "instant": display.instant(event.time),
        "href": render.event_href(event),
        "stream_href": render.stream_href(event.stream),
    }
    return b"id: %s\nevent: event\ndata: %s\n\n" % (cursor.encode(), msgspec.json.encode(summary))
