"""Pages of JSON, sent in slices. Until the client has taken a page, it counts as a read in progress.

If the client does not take all of it in time, the connection is closed, even if it reads a little now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick.server.access import CONNECTION
from tallystick.server.gate import Admission
from tallystick.server.service import Service

SLICE_BYTES = 256 << 10
JSON = "application/json"


class PageResponse(Response):
    """JSON that was made in a thread."""

    media_type = JSON

    def __init__(self, body: bytes, admission: Admission, *, seconds: float) -> None:
        super().__init__(body)
        self._admission = admission
        self._seconds = seconds

    @classmethod
    async def of(cls, service: Service, read: Callable[..., bytes], *args: Any, **options: Any) -> PageResponse:
        """The result of a read; `Overloaded` if there are too many."""
        admission = service.reads.enter()
        try:
            body = await service.in_thread(read, service, *args, **options)
            admission.grow(len(body))
            return cls(body, admission, seconds=service.limits.page_seconds)
        except BaseException:
            admission.leave()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Each slice waits until the one before has been sent."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(send)
        except TimeoutError:
            if CONNECTION in scope:
                scope[CONNECTION].abort()
        finally:
            self._admission.leave()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = bytes(self.body)
        for start in range(0, len(body), SLICE_BYTES):
            end = start + SLICE_BYTES
            piece = body if len(body) <= SLICE_BYTES else body[start:end]
            await send({"type": "http.response.body", "body": piece, "more_body": end < len(body)})
