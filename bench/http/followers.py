"""Followers of the live stream: many sockets, of each the positions that it was sent."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator

import msgspec

from bench.http.client import RECEIVE_BYTES, Connection, get

_ID = re.compile(rb"(?:^|\n)id: ?(\d+)[^\r\n]*\r?\n")
_CARRIED = 64  # no line that begins an event is longer
GIVE_UP_SECONDS = 20.0


class Watched(msgspec.Struct):
    """What one follower saw: how many events, the last position, and whether one was missing or repeated."""

    seen: int = 0
    last: int = 0
    broken: int = 0
    rest: bytes = b""


class Followers:
    """Many followers under one epoll."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._poll = select.epoll()
        self._connections = [Connection(address) for _ in range(count)]
        self._watched: dict[int, Watched] = {}
        self._by_fd: dict[int, Connection] = {}
        for connection in self._connections:
            connection.send(get("/v1/follow?after=0", "Accept: text/event-stream"))
            fd = connection.socket.fileno()
            self._watched[fd], self._by_fd[fd] = Watched(), connection
            self._poll.register(fd, select.EPOLLIN)

    def take(self, *, seconds: float) -> None:
        """Take what comes within a time."""
        for fd, _ in self._poll.poll(max(seconds, 0.0)):
            piece = self._by_fd[fd].socket.recv(RECEIVE_BYTES)
            if not piece:
                self._watched[fd].broken += 1
                self._poll.unregister(fd)
                continue
            _watch(self._watched[fd], piece)

    def take_until(self, position: int) -> None:
        """Take until everybody has seen a position, for a bounded time."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while min(watched.last for watched in self._watched.values()) < position and time.monotonic() < deadline:
            self.take(seconds=0.1)

    def missing(self, count: int) -> int:
        """Events that somebody did not get, got twice or out of order, of `count` that all should have got."""
        return sum(watched.broken + abs(count - watched.seen) for watched in self._watched.values())

    @property
    def furthest_behind(self) -> int:
        """The lowest position that somebody is at."""
        return min(watched.last for watched in self._watched.values())

    def close(self) -> None:
        """Hang up."""
        self._poll.close()
        for connection in self._connections:
            connection.close()


def _watch(watched: Watched, piece: bytes) -> None:
    text = watched.rest + piece
    end = 0
    for found in _positions(text):
        position, end = int(found.group(1)), found.end()
        watched.broken += position != watched.last + 1
        watched.last = position
        watched.seen += 1
    watched.rest = text[max(end - 1, len(text) - _CARRIED) :]


def _positions(text: bytes) -> Iterator[re.Match[bytes]]:
    return _ID.finditer(text)
