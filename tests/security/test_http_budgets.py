"""Attacks on what all share: stalled uploads, slow readers, followers and idle connections take no place of others."""

from __future__ import annotations

import math
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import tallystick
from tallystick import NewEvent
from tallystick.event import canonical
from tallystick.server.tokens import Tokens
from tests.server.conftest import Book, Served, Started, serving

pytestmark = pytest.mark.security

HOST = "127.0.0.1"
EVENT = {"events": [{"type": "noted", "payload": {"n": 1}}]}
HONEST_REQUESTS = 300
UPLOADS = 40
P99_SECONDS = 1.0
RSS_BYTES_MAX = 900 << 20


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test, for the tokens `mallory` of one org and `honest` of another."""
    with serving() as start:
        yield lambda **limits: start(
            tokens=Book(mallory=("writer", "evil"), second=("writer", "evil"), honest=("writer", "acme")), limits=limits
        )


def test_no_large_body_keeps_others_from_showing_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-13, SAFE-09: bodies are decoded in threads of their own; who asks is looked up in another, however many there
    are.
    """
    store, going, threads = tallystick.open("memory:"), threading.Event(), []
    tokens = Tokens(store)
    writers = [tokens.issue("writer", actor=f"w{n}", org=f"org{n}").secret for n in range(UPLOADS)]
    honest = tokens.issue("tenant", actor="honest", org="acme").secret
    real = canonical.parse

    def slow(body: bytes, **how: Any) -> Any:
        going.wait(60)
        return real(body, **how)

    with serving() as start:
        served = start(store, tokens=tokens)
        monkeypatch.setattr(canonical, "parse", slow)
        payload = {"text": "x" * (200 << 10)}
        for writer in writers:
            threads.append(threading.Thread(target=served.append, args=("note/1", payload), kwargs={"token": writer}))
            threads[-1].start()
        time.sleep(1)  # each is being decoded, or waits for that; by now the tokens have to be looked at again
        try:
            with served.as_(honest) as client:
                assert client.get("/v1/events", timeout=20).status_code == 200
        finally:
            going.set()
            for thread in threads:
                thread.join()


def connect(port: int, text: bytes = b"") -> socket.socket:
    """A connection that sent this and says nothing more; it holds as little as it can of what it is sent."""
    connection = socket.socket()
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect((HOST, port))
        connection.sendall(text)
    except OSError:
        connection.close()
        raise
    return connection


def request(token: str, what: str, *headers: str) -> bytes:
    """The head of a request."""
    lines = [f"{what} HTTP/1.1", "host: localhost", f"authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def stalled_upload(token: str) -> bytes:
    """A request whose body of 8 MiB never comes."""
    size = 8 << 20
    return request(
        token, "POST /v1/streams/order/m/events", "content-type: application/json", f"content-length: {size}"
    )


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def held() -> Iterator[Callable[[socket.socket], socket.socket]]:
    """Holds connections until the end of the test."""
    with ExitStack() as connections:
        yield connections.enter_context


def test_stalled_uploads_take_no_room(serve: Any, held: Any) -> None:
    """SAFE-09: the length that a head announces takes no room for bodies: others append."""
    served = serve()
    for _ in range(20):
        held(connect(served.port, stalled_upload("mallory")))
    until(lambda: served.service.appends.count >= 8)
    assert served.append("order/1", {"n": 1}, token="honest").status_code == 201


def test_one_caller_cannot_have_all_appends(serve: Any, held: Any) -> None:
    """SAFE-09: with all its tokens an org has no more than its share: others append."""
    served = serve(pending_requests_max=8)
    for number in range(16):
        held(connect(served.port, stalled_upload("mallory" if number % 2 else "second")))
    until(lambda: served.service.appends.refused + served.service.appends.count >= 16)
    assert served.append("order/1", {"n": 1}, token="mallory").status_code == 429
    assert served.append("order/1", {"n": 1}, token="honest").status_code == 201


def test_one_caller_cannot_have_all_reads(serve: Any, held: Any) -> None:
    """SAFE-09: readers that do not take their pages hold no more than their share: others read."""
    served = serve(reads_max=8, page_bytes_max=16 << 20)
    for _ in range(16):
        events = [NewEvent("noted", {"text": "x" * 50_000}, meta={"org": "evil"}) for _ in range(25)]
        served.service.store.append("order/m", events)
    for _ in range(16):
        held(connect(served.port, request("mallory", "GET /v1/events?limit=10000")))
    until(lambda: served.service.reads.refused + served.service.reads.count >= 16)
    with served.as_("mallory") as client:
        assert client.get("/v1/store").status_code == 429
    with served.as_("honest") as client:
        assert client.get("/v1/store").status_code == 200


def test_a_page_is_taken_in_time(serve: Any) -> None:
    """A reader that takes a little now and then is disconnected too, and its place is free."""
    served = serve(page_seconds=1.0, page_bytes_max=64 << 20)
    for _ in range(20):
        events = [NewEvent("noted", {"text": "x" * 50_000}, meta={"org": "evil"}) for _ in range(40)]
        served.service.store.append("order/m", events)
    with connect(served.port, request("mallory", "GET /v1/events?limit=10000")) as slow:
        until(lambda: served.service.reads.count == 1)
        deadline = time.monotonic() + 60
        while served.service.reads.count:
            assert time.monotonic() < deadline
            slow.recv(256)
            time.sleep(0.05)


def test_one_caller_cannot_have_all_follows(serve: Any, held: Any) -> None:
    """SAFE-09: the followers of one org leave room for those of others."""
    served = serve(followers_max=8)
    for _ in range(16):
        assert held(connect(served.port, request("mallory", "GET /v1/follow"))).recv(12).startswith(b"HTTP/1.1")
    with served.as_("honest") as client, client.stream("GET", "/v1/follow") as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize("said", [b"", b"GET /v1/events HTTP/1.1\r\nhost: loc", request("mallory", "GET /v1/store")])
def test_idle_connections_do_not_keep_others_out(serve: Any, held: Any, said: bytes) -> None:
    """SAFE-09: Anyone who comes is served: an idle connection of those that hold most makes room, with or without a
    token.
    """
    served = serve(connections_max=20)
    with served.as_("honest") as before:
        assert before.get("/v1/store").status_code == 200
        for _ in range(60):
            held(connect(served.port, said))
        with served.as_("honest") as client:
            assert client.post("/v1/streams/order/1/events", json=EVENT).status_code == 201
        assert before.get("/v1/store").status_code == 200
    assert len(served.listener.server_state.connections) <= 40


def hostile(kind: int, secrets: dict[str, str]) -> bytes:
    """What a hostile connection of a kind says."""
    mallory = secrets["mallory"]
    return (
        b"",
        b"GET /v1/events HTTP/1.1\r\nhost: loc",
        stalled_upload(mallory) + b'{"events":[' + b" " * 4000,
        request(mallory, "GET /v1/events?limit=10000"),
        request(mallory, "GET /v1/follow?after=0"),
        request(mallory, f"GET /v1/follow?after={1 << 62}"),
        request(mallory, "GET /v1/store"),
        request("unknown", "GET /v1/store"),
    )[kind % 8]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for a thousand open connections in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 4096:
        pytest.skip("this user may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
def test_a_thousand_hostile_connections_do_not_disturb_an_honest_tenant(tmp_path: Path) -> None:
    """SAFE-09: Idle, slow, stalled and following: an honest tenant is answered within a second, and memory stays
    bounded.
    """
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        tokens = Tokens(store)
        orgs = {"mallory": "evil", "ann": "acme"}
        secrets = {name: tokens.issue("writer", actor=name, org=org).secret for name, org in orgs.items()}
        for _ in range(40):
            events = [NewEvent("noted", {"text": "x" * 50_000}, meta={"org": "evil"}) for _ in range(50)]
            store.append("order/m", events)
    started = Started(url)
    connections: list[socket.socket] = []
    try:
        connections += [connect(started.port, hostile(number, secrets)) for number in range(1000)]
        stop = threading.Event()
        again = threading.Thread(target=_again, args=(started.port, secrets, connections, stop))
        again.start()
        seconds = _honest(started.address, secrets["ann"])
        rss = _rss_bytes(started.process.pid)
        stop.set()
        again.join()
    finally:
        started.kill()
        for pipe in (started.process.stdout, started.process.stderr, *connections):
            pipe.close()
    assert sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1] < P99_SECONDS
    assert rss < RSS_BYTES_MAX


def _again(port: int, secrets: dict[str, str], connections: list[socket.socket], stop: threading.Event) -> None:
    """Open those again that were closed, as an attacker would."""
    number = 0
    while not stop.wait(0.01):
        number += 1
        connections[number % len(connections)].close()
        try:
            connections[number % len(connections)] = connect(port, hostile(number, secrets))
        except OSError:
            continue


def _honest(address: str, token: str) -> list[float]:
    """How long each request of a tenant takes that appends and reads its own; every one has to be answered."""
    taken = []
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        for number in range(HONEST_REQUESTS):
            began = time.monotonic()
            if number % 3:
                answer = client.post(f"/v1/streams/order/{number}/events", json=EVENT)
            else:
                answer = client.get("/v1/streams?kind=order")
            taken.append(time.monotonic() - began)
            assert answer.status_code in (200, 201), answer.text
    return taken


def _rss_bytes(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
