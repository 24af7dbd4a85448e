"""One connection: uvicorn's HTTP protocol with bounds.

- The head of a request must arrive in time, and its size is bounded. A silent connection is closed, and so is one whose
  bytes complete no header, body or request (names, values, extensions and blank lines without end).
- The body must arrive in time too, whether the handler reads it or not. A handler that reads it refuses a little
  earlier, with a better message.
- Only a few requests may wait on a connection while one is answered, because each takes memory.
- The number of connections is bounded. If there is one too many, another one is closed (`crowd.py` says which).
- A client that takes nothing for a while is disconnected.
- Bytes that are not HTTP get a problem with the same headers as every other mistake.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from tallystick import errors
from tallystick.server.access import CONNECTION
from tallystick.server.http import problems
from tallystick.server.http.bodies import WHOLE
from tallystick.server.http.crowd import ANONYMOUS, Crowd
from tallystick.server.http.front import SECURITY_HEADERS
from tallystick.server.settings import Limits


def bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol with these bounds, for one service."""
    parts = {"limits": limits, "crowd": Crowd(count_max=limits.connections_max)}
    return type("Connection", (BoundedConnection,), parts)


PIPELINED_MAX = 16


class _TooMuch(httptools.HttpParserError):
    """The head of the request is too large, or too many requests wait."""


class BoundedConnection(HttpToolsProtocol):
    """One connection, bounded."""

    limits = Limits()
    crowd = Crowd(count_max=Limits().connections_max)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._moves = False
        self._idle_bytes = 0  # since a header, piece of a body or request was complete; the parser keeps them
        self._answered: RequestResponseCycle | None = None  # `cycle` is the one that arrived last
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection. If there are too many, close one."""
        super().connection_made(transport)
        self.crowd.join(self, f"{ANONYMOUS} {self.client[0] if self.client else ''}")
        self._expect_head()
        if self.crowd.is_full:
            victim = self.crowd.victim() or self
            assert isinstance(victim, BoundedConnection)
            victim.make_room()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def identify(self, caller: str | None) -> None:
        """Note that a request was authorised: the connection belongs to its caller from now on."""
        if self in self.connections:
            self.crowd.join(self, caller or "local")

    def make_room(self) -> None:
        """Close it, so that another can stay. A busy or stalled connection is closed without a response."""
        self.crowd.leave(self)
        if self.is_idle and not self.transport.get_write_buffer_size():
            self._refuse(problems.response(errors.Overloaded(what="connections")))
        else:
            self.transport.abort()

    def abort(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long. Do not wait for bytes that the client does not take."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(self.limits.follower_seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every timer, and tell the handler that the client has gone."""
        self.crowd.leave(self)
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._cancel_timer()
        self._cancel_stall()
        super().connection_lost(exc)

    # --- the head of a request must arrive in time --------------------------------------------------------------------

    def _expect_head(self) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(self.limits.header_seconds, self._late)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(problems.plain(408, "request_timeout", "the request did not arrive in time"))

    def data_received(self, data: bytes) -> None:
        """Receive bytes. Those that complete nothing are bounded too."""
        self._moves = False
        super().data_received(data)
        self._idle_bytes = 0 if self._moves else self._idle_bytes + len(data)
        if self._idle_bytes > self.limits.header_bytes_max and not self.transport.is_closing():
            self._head_bytes = self._idle_bytes
            self.send_400_response("")

    def on_body(self, body: bytes) -> None:
        """Receive a piece of a body."""
        self._moves = True
        super().on_body(body)

    def on_message_begin(self) -> None:
        """A request begins: its head must arrive in time."""
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _TooMuch
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self._head_bytes = 0
        if self._timer is None:
            self._expect_head()

    def on_url(self, url: bytes) -> None:
        """Receive a piece of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header."""
        self._moves = True
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.limits.header_bytes_max:
            raise _TooMuch

    def on_headers_complete(self) -> None:
        """The head has arrived. Now the body must arrive in time, if there is one."""
        self._moves = True
        self._cancel_timer()
        seconds = self.limits.body_seconds + self.limits.header_seconds
        self._timer = self.loop.call_later(seconds, self._late)
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        """A response was sent. The next waiting request is answered."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def on_message_complete(self) -> None:
        """The body has arrived. Most arrive with their head, and their handlers need no timer."""
        self._moves = True
        self._cancel_timer()
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    # --- the client must read -----------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The client reads slowly: watch whether it takes anything."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The client has read enough."""
        self._cancel_stall()
        super().resume_writing()

    def _watch(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(self.limits.follower_seconds, self._stalled)

    def _cancel_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _stalled(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent:
            self._watch()
        else:
            self.transport.abort()

    # --- bytes that are not HTTP --------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that cannot be parsed."""
        if self._head_bytes > self.limits.header_bytes_max:
            self._refuse(problems.plain(431, "header_too_large", "the head of the request is too large"))
        else:
            self._refuse(problems.plain(400, "bad_request", "this is not an HTTP request that can be understood"))

    def _refuse(self, response: Response) -> None:
        """Send a problem, and close. A response that was begun is not interrupted by it."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not (cycle.response_started or self.pipeline):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
            lines = [STATUS_LINE[response.status_code]]
            for name, value in (*response.raw_headers, *SECURITY_HEADERS, (b"connection", b"close")):
                lines += [name, b": ", value, b"\r\n"]
            self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()
