"""One connection: uvicorn's HTTP protocol with the bounds it lacks.

- The head of a request must be complete in time and of bounded size; a connection that says nothing is closed. So is
  one whose bytes are no end of a header, no body and no request: names, values, extensions and blank lines without end.
- No more than a few requests wait behind one that is answered: each takes memory.
- So must its body, whether the handler reads it or not: handlers that do say so a little earlier, and better.
- No more than so many connections at once: when one more comes, another has to go (crowd.py says which).
- A reader that takes nothing of what it was sent for a while is cut off.
- What is no HTTP is answered like every other mistake, with a problem and the same headers.
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
    return type("BoundedConnection", (Connection,), parts)


PIPELINED_MAX = 16


class _TooMuch(httptools.HttpParserError):
    """The head of the request is too large, or too many requests wait."""


class Connection(HttpToolsProtocol):
    """One connection, bounded."""

    limits = Limits()
    crowd = Crowd(count_max=Limits().connections_max)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_bytes = 0
        self._moves = False
        self._idle_bytes = 0  # since the last header, piece of a body or request was complete: the parser keeps them
        self._answered: RequestResponseCycle | None = None  # `cycle` is the one that came last
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Greet; if there are too many, somebody has to go."""
        super().connection_made(transport)
        self.crowd.join(self, f"{ANONYMOUS} {self.client[0] if self.client else ''}")
        self._expect_head()
        if self.crowd.is_full:
            victim = self.crowd.victim() or self
            assert isinstance(victim, Connection)
            victim.make_room()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def identify(self, caller: str | None) -> None:
        """A request of this connection was authorised: it counts for its caller from now on."""
        if self in self.connections:
            self.crowd.join(self, caller or "local")

    def make_room(self) -> None:
        """Go, so that another can stay. One that is busy, or takes nothing, is cut off."""
        self.crowd.leave(self)
        if self.is_idle and not self.transport.get_write_buffer_size():
            self._refuse(problems.response(errors.Overloaded(what="connections")))
        else:
            self.transport.abort()

    def abort(self) -> None:
        """Cut it off."""
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """It was idle for too long. What was not taken by now is not waited for."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(self.limits.follower_seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every clock. Who is answered has nowhere to write to."""
        self.crowd.leave(self)
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._cancel_timer()
        self._cancel_stall()
        super().connection_lost(exc)

    # --- the head of a request arrives in time ------------------------------------------------------------------------

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
        """Bytes that complete nothing are bounded too."""
        self._moves = False
        super().data_received(data)
        self._idle_bytes = 0 if self._moves else self._idle_bytes + len(data)
        if self._idle_bytes > self.limits.header_bytes_max and not self.transport.is_closing():
            self._head_bytes = self._idle_bytes
            self.send_400_response("")

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._moves = True
        super().on_body(body)

    def on_message_begin(self) -> None:
        """A request begins: after an idle time, its head has to come soon."""
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _TooMuch
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self._head_bytes = 0
        if self._timer is None:
            self._expect_head()

    def on_url(self, url: bytes) -> None:
        """A piece of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._moves = True
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.limits.header_bytes_max:
            raise _TooMuch

    def on_headers_complete(self) -> None:
        """The head is there; now the body has to come, if there is one."""
        self._moves = True
        self._cancel_timer()
        seconds = self.limits.body_seconds + self.limits.header_seconds
        self._timer = self.loop.call_later(seconds, self._late)
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        """An answer is out; the next request that waits is answered."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def on_message_complete(self) -> None:
        """The body is there too. Most come with their head: their handlers need not watch the clock."""
        self._moves = True
        self._cancel_timer()
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    # --- what is sent is taken ----------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The reader is behind: watch whether it takes anything."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The reader took enough."""
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

    # --- what is no HTTP ----------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """What cannot be understood."""
        if self._head_bytes > self.limits.header_bytes_max:
            self._refuse(problems.plain(431, "header_too_large", "the head of the request is too large"))
        else:
            self._refuse(problems.plain(400, "bad_request", "this is not an HTTP request that can be understood"))

    def _refuse(self, response: Response) -> None:
        """Say a problem, and close. Nothing is said into the middle of another answer."""
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
