"""What a client sends that is no request yet, or more requests than it takes answers for, takes no memory."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tallystick.server.http.connection import PIPELINED_MAX
from tests.server.conftest import Book, Served, serving

pytestmark = pytest.mark.security

HOST = "127.0.0.1"
GET = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer honest\r\n\r\n"
HEAD = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = (
    b"POST /v1/streams/order/m/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer honest\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
)
ENDLESS = {
    "a method": (b"", b"A"),
    "a path": (b"GET /", b"a"),
    "the name of a header": (HEAD, b"a"),
    "a header": (HEAD + b"x: ", b"a"),
    "headers": (HEAD, b"x: y\r\n"),
    "blank lines": (b"", b"\r\n"),
    "an extension of a chunk": (CHUNKED + b"1;x=", b"a"),
    "a trailer": (CHUNKED + b"1\r\n{\r\n0\r\nx: ", b"a"),
}
PIECE_BYTES, SENT_BYTES_MAX = 16 << 10, 32 << 20


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test."""
    with serving() as start:
        yield start


@pytest.mark.parametrize(("head", "unit"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_becomes_a_request_is_cut_off(serve: Any, head: bytes, unit: bytes) -> None:
    """SAFE-09: the parser keeps what is incomplete, so that is bounded like a head, long before its time is over."""
    served = serve(tokens=Book(honest=("writer", "acme")), limits={"header_seconds": 3600.0, "body_seconds": 3600.0})
    sent, piece = 0, unit * (PIECE_BYTES // len(unit))
    with socket.create_connection((HOST, served.port), timeout=60) as connection:
        try:
            connection.sendall(head)
            while sent < SENT_BYTES_MAX:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
    assert sent < SENT_BYTES_MAX
    assert served.append("order/1", {"n": 1}, token="honest").status_code == 201


def test_waiting_requests_of_a_connection_are_bounded(serve: Any) -> None:
    """SAFE-09: each waiting request takes memory, and a client that reads no responses could make any number wait."""
    served = serve(tokens=Book(honest=("writer", "acme")))
    sent = 0
    with socket.create_connection((HOST, served.port), timeout=60) as connection:
        try:
            while sent < SENT_BYTES_MAX:
                connection.sendall(GET * 100)
                sent += len(GET) * 100
        except OSError:
            pass
    assert sent < SENT_BYTES_MAX


def test_a_few_requests_may_be_sent_at_once(serve: Any) -> None:
    """Each request is answered, in order."""
    served = serve(tokens=Book(honest=("writer", "acme")))
    with socket.create_connection((HOST, served.port), timeout=60) as connection:
        connection.sendall(GET * PIPELINED_MAX + GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
    assert found.count(b"HTTP/1.1 200 OK") == PIPELINED_MAX + 1
