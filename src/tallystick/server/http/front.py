"""What every request passes first. The front refuses requests for other hosts, from other origins, and while the
service stops. It turns errors into problems, and adds a request id and security headers to every response.
"""

from __future__ import annotations

import ipaddress
import itertools
import logging
import re
import secrets
import time
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick import errors
from tallystick.server.http import problems
from tallystick.server.service import Service

logger = logging.getLogger("tallystick.server")

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HOST = re.compile(rb"(?:(?P<name>[a-z0-9_.-]+)|\[(?P<address>[0-9a-f:.]+)\])(?::[0-9]{1,5})?")
REQUEST_ID = re.compile(rb"[A-Za-z0-9_.:@=+-]{1,128}")

_PREFIX = secrets.token_hex(8)
_NUMBERS = itertools.count(1)


class Front:
    """The outermost part of the app."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = LOOPBACK_NAMES | {service.settings.host} | {name.lower() for name in service.settings.allow_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        outgoing = _Outgoing(scope, send)
        began = time.perf_counter()
        try:
            await self._answer(scope, receive, outgoing)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "unknown")
            self._service.metrics.request(route=route, method=scope["method"], status=outgoing.status, seconds=seconds)
            self._service.operations.watched(scope, route=route, status=outgoing.status, seconds=seconds)

    async def _answer(self, scope: Scope, receive: Receive, outgoing: _Outgoing) -> None:
        try:
            self._check(scope)
            await self._app(scope, receive, outgoing.send)
        except errors.TallyError as problem:
            self._service.metrics.refused(code=problems.code_of(type(problem)))
            problems.log(problem, outgoing.request_id.decode())
            if outgoing.status:  # a response was begun, so the connection is closed
                raise
            await problems.response(problem)(scope, receive, outgoing.send)
        except ClientDisconnect:
            outgoing.status = 499  # the client has gone
        except Exception:
            logger.exception("a request failed", extra={"request_id": scope["tally.request_id"]})
            if outgoing.status:
                raise
            detail = "the service failed; the log has the reason under this request id"
            await problems.plain(500, "internal", detail)(scope, receive, outgoing.send)

    def _check(self, scope: Scope) -> None:
        if self._service.draining:
            raise errors.Draining()
        host = origin = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    raise errors.WrongHost()
                host = value
            elif name == b"origin":
                origin = value
        if host is None or not self._is_ours(host):
            raise errors.WrongHost()
        if origin is not None and scope["method"] not in SAFE_METHODS and origin.partition(b"://")[2] != host:
            raise errors.CrossOrigin()

    def _is_ours(self, host: bytes) -> bool:
        """Whether a Host names this service. An address always does: DNS rebinding needs a name."""
        form = HOST.fullmatch(host.lower())
        if form is None:
            return False
        name = (form["name"] or form["address"]).decode()
        if form["name"] and name in self._hosts:
            return True
        try:
            return bool(ipaddress.ip_address(name)) and (form["name"] is None) == (":" in name)
        except ValueError:
            return False


class _Outgoing:
    """Sends a response: it adds the headers of every response, and keeps the status."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self.status = 0
        self.request_id = _request_id(scope)
        scope["tally.request_id"] = self.request_id.decode()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *SECURITY_HEADERS, (b"x-request-id", self.request_id)]
        await self._send(message)


def _request_id(scope: Any) -> bytes:
    """The id that the caller gave, if it is valid; otherwise a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return bytes(value)
    return f"{_PREFIX}-{next(_NUMBERS)}".encode()
