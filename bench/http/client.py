"""A client that costs little beside the server: keep-alive sockets under one epoll, requests made beforehand.

It reads exactly what it must: the status, the length, and the body where that is asked for.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

RECEIVE_BYTES = 1 << 18
_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Connection:
    """One keep-alive connection: sends a request, and takes bytes until its answer is whole."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._wanted = -1

    def send(self, request: bytes) -> None:
        """Send a whole request."""
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Take what is there; the body once the answer is whole. Anything but success is an error."""
        piece = self.socket.recv(RECEIVE_BYTES)
        if not piece:
            raise ConnectionError("the server hung up")
        buffer = self._buffer
        buffer += piece
        if self._wanted < 0:
            end = buffer.find(_END)
            if end < 0:
                return None
            self._wanted = end + len(_END) + _length(bytes(buffer[:end]))
        if len(buffer) < self._wanted:
            return None
        head = buffer.find(_END) + len(_END)
        body = bytes(buffer[head : self._wanted])
        if buffer[9:10] != b"2":
            raise RuntimeError(f"{bytes(buffer[:40])!r} {body[:300]!r}")
        del buffer[: self._wanted]
        self._wanted = -1
        return body

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for its answer."""
        self.send(request)
        while (body := self.receive()) is None:
            pass
        return body

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _length(head: bytes) -> int:
    at = head.lower().find(_LENGTH)
    return int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0


def exchange(connections: Sequence[Connection], requests: Sequence[Sequence[bytes]]) -> list[float]:
    """Let every connection send its requests, each after the answer to the one before; the time of each in seconds."""
    poll, clock = select.epoll(), time.perf_counter
    by_fd: dict[int, tuple[Connection, list[bytes]]] = {}
    sent: dict[int, float] = {}
    taken: list[float] = []
    try:
        for connection, given in zip(connections, requests, strict=True):
            fd = connection.socket.fileno()
            by_fd[fd] = (connection, list(reversed(given)))
            poll.register(fd, select.EPOLLIN)
        for fd, (connection, waiting) in by_fd.items():
            sent[fd] = clock()
            connection.send(waiting.pop())
        busy = len(by_fd)
        while busy:
            for fd, _ in poll.poll():
                connection, waiting = by_fd[fd]
                if connection.receive() is None:
                    continue
                now = clock()
                taken.append(now - sent[fd])
                if waiting:
                    sent[fd] = now
                    connection.send(waiting.pop())
                else:
                    busy -= 1
    finally:
        poll.close()
    return taken


def post(path: str, body: bytes) -> bytes:
    """A POST of JSON."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def get(path: str, *headers: str) -> bytes:
    """A GET."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode()
