"""Listening: one process, one event loop, and a shutdown that loses no accepted request."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from uvicorn import Config, Server

from tallystick import errors
from tallystick.server.app import build
from tallystick.server.http.connection import bounded
from tallystick.server.service import Service
from tallystick.server.settings import Limits, Settings

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

BACKLOG = 1024
OTHER_FILES = 1024  # open files of the store, its readers and the libraries, approximately


class Listener(Server):
    """A uvicorn server that reports when it is ready, and disconnects followers before it waits for connections."""

    def __init__(self, service: Service, *, ready: Callable[[str], None] = lambda address: None) -> None:
        self._service = service
        self._ready = ready
        limits = service.limits
        make_room(limits)
        self.app = build(service)
        super().__init__(
            Config(
                self.app,
                http=bounded(limits),
                ws="none",
                loop="auto",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=int(limits.idle_seconds),
                timeout_graceful_shutdown=int(limits.drain_seconds),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report the address."""
        await super().startup(sockets)
        for listening in sockets or ():
            self._ready(address_of(listening))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the accepted requests, then close the store."""
        self._service.drain()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down in order. The signal is not raised again afterwards, because this is a success."""
        self.should_exit = True


def make_room(limits: Limits) -> None:
    """Raise the limit of open files, so that there is one for each connection and enough for the store."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections_max + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # the real limit may be lower than the reported one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind(settings: Settings) -> socket.socket:
    """The socket to listen on."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.setblocking(False)
    except OSError as problem:
        listening.close()
        reason = problem.strerror or str(problem)
        raise errors.NotReachable(url=f"{settings.host}:{settings.port}", reason=reason) from None
    return listening


def require_safe(service: Service) -> None:
    """Refuse an address that others can reach while there is no token: each of them would be the operator."""
    if not service.settings.is_loopback and not service.tokens.required:
        raise errors.UnsafeAddress(host=service.settings.host)


def address_of(listening: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
