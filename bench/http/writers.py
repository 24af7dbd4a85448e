"""Writers at a steady rate: a few connections, so that one slow answer does not hold the next event back."""

from __future__ import annotations

import select
import time

from bench.http.client import Connection

_POSITION = b'"first_position":'


class Writers:
    """Sends single appends and notes when each was sent, by the position that it got."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._idle = [Connection(address) for _ in range(count)]
        self._busy: dict[int, tuple[Connection, float]] = {}
        self._poll = select.epoll()
        self.sent: dict[int, float] = {}
        for connection in self._idle:
            self._poll.register(connection.socket.fileno(), select.EPOLLIN)

    def send(self, request: bytes) -> bool:
        """Send a request if a connection is free."""
        if not self._idle:
            return False
        connection = self._idle.pop()
        self._busy[connection.socket.fileno()] = (connection, time.perf_counter())
        connection.send(request)
        return True

    def take(self) -> None:
        """Take the answers that are there."""
        for fd, _ in self._poll.poll(0):
            connection, began = self._busy[fd]
            body = connection.receive()
            if body is not None:
                at = body.index(_POSITION) + len(_POSITION)
                self.sent[int(body[at:].partition(b",")[0])] = began
                del self._busy[fd]
                self._idle.append(connection)

    def close(self) -> None:
        """Hang up."""
        self._poll.close()
        for connection in [*self._idle, *(connection for connection, _ in self._busy.values())]:
            connection.close()
