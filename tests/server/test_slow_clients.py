"""Bounds on clients that are slow or many: they are told, and the others are served."""

from __future__ import annotations

import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.engines.disk import Disk
from tallystick.event import canonical
from tallystick.server.http import bodies, idempotency
from tallystick.testing.faults import FaultyFileSystem

HEAD = b"POST /v1/streams/order/1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
ASKED = b"GET /v1/store HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
BODY = b'{"events":[{"type":"noted","payload":{}}]}'


def test_8_a_head_that_does_not_end_is_closed(serve: Any) -> None:
    """Slowloris: a connection that trickles headers, or is silent, gets a 408 and is closed."""
    served = serve(limits={"header_seconds": 0.2})
    assert served.raw(b"GET /v1/events HTTP/1.1\r\nhost: loc").startswith(b"HTTP/1.1 408 ")
    assert served.raw(b"").startswith(b"HTTP/1.1 408 ")


def test_a_body_that_does_not_end_is_refused(serve: Any) -> None:
    """408 after the time for bodies. Nothing is recorded, and its place is free again."""
    served = serve(limits={"body_seconds": 0.2})
    answer = served.raw(HEAD + b"content-length: 1000\r\n\r\n" + BODY)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"body_too_slow" in answer
    assert served.service.store.head() == 0
    assert served.service.appends.count == 0
    whole = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
    assert served.raw(whole).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("path", [b"POST /console/login", b"GET /v1/store"])
def test_a_body_that_does_not_end_is_refused_whether_it_is_read_or_not(serve: Any, path: bytes) -> None:
    """Slowloris by bodies: a form, or a body that no handler reads, does not hold a connection permanently."""
    served = serve(limits={"body_seconds": 0.2, "header_seconds": 0.2})
    head = path + b" HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\ncontent-length: 1000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(head)
        threading.Event().wait(0.1)
        connection.sendall(b"token=")  # whatever comes stops the clock for idle connections
        while connection.recv(65536):
            pass


def test_an_idle_connection_is_closed(serve: Any) -> None:
    """After a response a connection may be idle for a while, but not permanently."""
    served = serve(limits={"idle_seconds": 1})
    answer = served.raw(b"GET /v1/store HTTP/1.1\r\nhost: localhost\r\n\r\n", seconds=30)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_connections_are_bounded(serve: Any) -> None:
    """One connection too many replaces the oldest silent one, which gets a 429 and is closed."""
    served = serve(limits={"connections_max": 3})
    with ExitStack() as opened:
        held = [opened.enter_context(socket.create_connection(("127.0.0.1", served.port), 20)) for _ in range(3)]
        assert served.raw(ASKED).startswith(b"HTTP/1.1 200 ")
        refused = held[0].recv(65536)
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1" in refused
        held[1].sendall(ASKED)
        assert held[1].recv(65536).startswith(b"HTTP/1.1 200 ")


class Stuck(FaultyFileSystem):
    """A disk whose syncs take until they are let go."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.go = threading.Event()
        self.go.set()

    def is_due(self, operation: str, path: str) -> bool:
        """Wait for it."""
        if operation == "sync" and path.endswith("current.log"):
            assert self.go.wait(60)
        return super().is_due(operation, path)


def test_more_appends_than_fit_are_sent_away(serve: Any, tmp_path: Any) -> None:
    """Back-pressure: 429 with Retry-After while the disk is stuck. Only what was accepted is recorded."""
    disk = Stuck()
    served = serve(tallystick.open(f"files:{tmp_path}/log", filesystem=disk), limits={"pending_requests_max": 4})
    disk.go.clear()
    with ThreadPoolExecutor(4) as threads:
        accepted = [threads.submit(served.append, f"order/{number}", {}) for number in range(4)]
        while served.service.appends.count < 4:
            threading.Event().wait(0.002)
        refused = served.append("order/9", {})
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert refused.headers["retry-after"] == "1"
        assert served.client.get("/v1/events").status_code == 200
        disk.go.set()
        assert {done.result().status_code for done in accepted} == {201}
    assert served.append("order/9", {}).status_code == 201
    assert served.service.store.head() == 5


def test_bodies_are_bounded_together(serve: Any, tmp_path: Any) -> None:
    """Memory: waiting appends are counted in bytes too, a single one always fits, and done ones free their room."""
    disk = Stuck()
    store = tallystick.open(f"files:{tmp_path}/log", filesystem=disk)
    served = serve(store, limits={"pending_bytes_max": 50_000})
    large = {"text": "x" * 60_000}
    disk.go.clear()
    with ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(served.append, "order/1", large)
        while served.service.log.waiting or served.service.appends.bytes < 60_000:
            threading.Event().wait(0.002)
        assert served.append("order/2", large).status_code == 429
        assert served.append("order/2", {}).status_code == 429
        disk.go.set()
        assert accepted.result().status_code == 201
    assert served.service.appends.bytes == 0
    assert served.append("order/2", large).status_code == 201


def test_reads_are_bounded(serve: Any) -> None:
    """A reader that does not take its page keeps its place, and one too many is refused until it has left."""
    served = serve(limits={"reads_max": 1, "follower_seconds": 600, "page_bytes_max": 30 << 20})
    for _ in range(700):
        served.service.store.append("order/1", NewEvent("noted", {"text": "x" * 50_000}))
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(b"GET /v1/events?limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while not served.service.reads.count:
            threading.Event().wait(0.002)
        assert served.client.get("/v1/store").status_code == 429
    while served.service.reads.count:
        threading.Event().wait(0.01)
    assert served.client.get("/v1/store").status_code == 200


def test_a_large_body_is_decoded_in_a_thread(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served meanwhile. Small bodies, which are most, are decoded in the event loop."""
    seen: list[str] = []
    parse = canonical.parse

    def watched(*given: Any, **named: Any) -> Any:
        seen.append(threading.current_thread().name)
        return parse(*given, **named)

    monkeypatch.setattr(bodies.canonical, "parse", watched)
    served = serve()
    assert served.append("order/1", {"n": 1}).status_code == 201
    assert served.append("order/1", *({"n": number} for number in range(5000))).status_code == 201
    loop, beside = seen
    assert loop != beside


def test_a_large_request_is_hashed_in_a_thread(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a large body takes long, and nobody else waits for it."""
    seen: list[str] = []
    hash_of = idempotency.hash_of

    def watched(asked: Any) -> bytes:
        seen.append(threading.current_thread().name)
        return hash_of(asked)

    monkeypatch.setattr(idempotency, "hash_of", watched)
    served = serve()
    assert served.append("order/1", {"n": 1}, headers={"idempotency-key": "a"}).status_code == 201
    many = ({"n": number, "text": "x" * 50} for number in range(5000))
    assert served.append("order/1", *many, headers={"idempotency-key": "b"}).status_code == 201
    loop, beside = seen
    assert loop != beside


def test_there_are_files_for_all_connections(serve: Any) -> None:
    """The soft limit on open files is raised for the connections, so that the store can still open its own."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        serve(limits={"connections_max": 500})
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard or soft > 500
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
