"""The twenty bad inputs of HTTP: each is refused by name, none is a failure of ours, and nothing changes."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tallystick import NewEvent, open

PATH = "/v1/streams/order/1/events"
ONE = {"type": "noted", "payload": {"n": 1}}
JSON = {"content-type": "application/json"}
TOKENS = {"acme": ("tenant", "acme"), "admin": ("admin", None), "writer": ("writer", "acme")}


@pytest.fixture(scope="module")
def served(listen: Any) -> Iterator[Any]:
    """A service without tokens, over a store that must stay as it is."""
    running = listen(open("memory:"))
    running.service.store.append("order/0", NewEvent("noted", {}))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def guarded(listen: Any, book: Any) -> Iterator[Any]:
    """The same behind tokens."""
    running = listen(open("memory:"), tokens=book(**TOKENS))
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def unchanged(served: Any) -> Iterator[None]:
    """Whatever was sent, nothing was recorded, and the service still answers."""
    before = served.service.store.head()
    yield
    assert served.service.store.head() == before
    assert served.client.get("/v1/events?limit=1").status_code == 200
    assert served.service.appends.count == 0
    assert served.service.appends.bytes == 0


def is_problem(answer: Any, *statuses: int) -> None:
    """A refusal in the form of a problem, with the headers of every answer."""
    assert answer.status_code in statuses, (answer.status_code, answer.text[:300])
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    assert answer.json()["code"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def status_of(answer: bytes) -> int:
    """The status of an answer as it came."""
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer[9:12])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", "Basic YTpi")],
        [("authorization", "Bearer admin"), ("authorization", "Bearer admin")],
        [("authorization", "Bearer admin, Bearer admin")],
        [("authorization", "Bearer expired")],
        [("cookie", "authorization=Bearer admin")],
    ],
)
def test_1_and_3_no_blank_two_or_expired_tokens(guarded: Any, headers: list[tuple[str, str]]) -> None:
    """One good token is accepted. Anything else is 401, for appends too."""
    is_problem(guarded.client.get("/v1/events", headers=headers), 401)
    content = json.dumps({"events": [ONE]})
    is_problem(guarded.client.post(PATH, content=content, headers=[*headers, *JSON.items()]), 401)


def test_2_and_11_the_token_or_the_cursor_of_another_org(guarded: Any) -> None:
    """A cursor is a position and shows nobody more: from any cursor a tenant gets only its own events."""
    store = guarded.service.store
    for org in ("other", "acme", "other"):
        store.append(f"order/{org}", NewEvent("noted", {"of": org}, meta={"org": org}))
    with guarded.as_("acme") as client:
        for after in range(store.head() + 2):
            page = client.get("/v1/events", params={"after": after}).json()
            assert {event["payload"]["of"] for event in page["events"]} <= {"acme"}
        is_problem(client.get("/v1/events", params={"after": "eyJ"}), 422)
        is_problem(client.get("/v1/events", params={"after": 2**63}), 422)


@pytest.mark.parametrize(
    "host", ["evil", "evil:80", "localhost.evil", "127.0.0.1.evil", "", "[evil]", "localhost@evil"]
)
def test_4_a_request_for_another_host(served: Any, host: str) -> None:
    """A page that reaches the service by a name of its own is refused."""
    answer = served.raw(f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert status_of(answer) == 421
    two = served.raw(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n")
    assert status_of(two) in (400, 421)
    none = served.raw(b"GET /v1/events HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert status_of(none) in (400, 421)


def test_5_a_post_that_a_page_could_send(served: Any) -> None:
    """A page of another origin can append neither with a plain text nor with JSON."""
    body = json.dumps({"events": [ONE]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        is_problem(served.client.post(PATH, content=body, headers={"content-type": kind}), 415)
    for origin in ("http://evil", "null", "http://localhost:1", "https://127.0.0.1"):
        is_problem(served.client.post(PATH, content=body, headers=JSON | {"origin": origin}), 403)
    options = served.client.options(PATH, headers={"origin": "http://evil", "access-control-request-method": "POST"})
    assert "access-control-allow-origin" not in options.headers


def test_6_two_ways_to_say_how_long_the_body_is(served: Any) -> None:
    """Chunked and Content-Length together, or two lengths, are how requests are smuggled."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    both = served.raw((head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n").encode())
    two = served.raw((head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}  ").encode())
    odd = served.raw((head + "Content-Length: -1\r\n\r\n").encode())
    assert {status_of(both), status_of(two), status_of(odd)} == {400}
    assert b"application/problem+json" in both
    assert b"content-security-policy" in both


def test_7_a_body_of_100_mb(served: Any) -> None:
    """A body is refused by its head, or as soon as it is too large."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert status_of(served.raw(f"{head}Content-Length: {100 << 20}\r\n\r\n{{".encode())) == 413
    piece = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        try:
            for _ in range(100):
                connection.sendall(piece)
                sent += 1
        except OSError:
            pass
        assert sent < 100


def test_9_a_compressed_bomb(served: Any) -> None:
    """Bodies are not unpacked."""
    bomb = gzip.compress(b" " * (32 << 20))
    for encoding in ("gzip", "br", "gzip, identity"):
        is_problem(served.client.post(PATH, content=bomb, headers=JSON | {"content-encoding": encoding}), 415)
    is_problem(served.client.post(PATH, content=bomb, headers=JSON), 422)


@pytest.mark.parametrize("limit", ["-1", "0", "1000000000", "1e3", "", "x", "1.5", "１", "0x10", "1&limit=2000000"])
def test_10_an_invalid_limit(served: Any, limit: str) -> None:
    """A number from 1 to 10,000. Anything else is 422 on every list."""
    for path in ("/v1/events", "/v1/streams", "/v1/streams/order/0/events", "/v1/audit"):
        is_problem(served.client.get(f"{path}?limit={limit}"), 422)


@pytest.mark.parametrize("expected", [-1, -2, 2**63, 2**64, 1.0, 1e300, "1", "ANY", True, [], {}])
def test_12_an_invalid_expectation(served: Any, expected: Any) -> None:
    """A seq, `none` or `any`."""
    is_problem(served.append("order/1", {}, expected=expected), 422)


@pytest.mark.parametrize(
    "name",
    [
        "a'%3B%20DROP%20TABLE%20events%3B--",
        "..%2f..",
        "..",
        "%2e%2e%2f%2e%2e%2fetc",
        "%00",
        "a%00b",
        "%C0%AE",
        "%ff",
        "a%0d%0aSet-Cookie:x",
        "a%20b",
        "a" * 10_000,
        "\u202e".encode().hex("%").join(["%", ""]),
        "%F0%9F%98%80",
        "%",
        "%zz",
    ],
    ids=range(15),
)
def test_13_to_16_invalid_names(served: Any, name: str) -> None:
    """SQL, paths, zero bytes, broken UTF-8, line breaks and 10 kB are not names, and create no stream and no header."""
    body = json.dumps({"events": [ONE]}).encode()
    for path in (f"/v1/streams/order/{name}/events", f"/v1/streams/{name}/1/events"):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        answer = served.raw(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert status_of(answer) in (400, 404, 422), answer[:300]
        assert b"\r\nset-cookie" not in answer.lower()
        read = served.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert status_of(read) in (400, 404, 422), read[:300]


def test_16_line_breaks_in_headers(served: Any) -> None:
    """A header comes back only if it is an id, and never as a header of its own."""
    injected = served.raw(
        b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: a\rSet-Cookie: b\r\n\r\n"
    )
    assert status_of(injected) in (200, 400)
    assert b"\nset-cookie" not in injected.lower().replace(b"\r", b"\n")
    odd = served.client.get("/v1/events", headers={"x-request-id": "<script>"})
    assert "script" not in odd.headers["x-request-id"]
    head = served.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")
    assert status_of(head) == 431


def test_17_other_methods(served: Any) -> None:
    """TRACE, CONNECT and overrides do nothing."""
    for method in ("TRACE", "PUT", "PATCH", "DELETE", "PROPFIND"):
        answer = served.raw(f"{method} {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert status_of(answer) in (400, 405)
    overridden = served.client.get(PATH, headers={"x-http-method-override": "POST"})
    is_problem(overridden, 404)
    assert status_of(served.raw(b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 400
    assert status_of(served.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")) == 400


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "noted", "payload": {"n": float("nan")}},
        {"type": "noted", "payload": {"n": 2**64}},
        {"type": "noted", "payload": []},
        {"type": "noted", "payload": "{}"},
        {"type": "noted", "payload": None},
        {"type": "no type!", "payload": {}},
        {"type": "noted", "payload": {}, "extra": 1},
        {"type": "noted", "payload": {}, "version": 0},
        {"type": "noted", "payload": {}, "id": "x"},
        {"type": "noted", "payload": {}, "time": -1},
        {"type": "noted", "payload": {}, "meta": {"org": 7}},
        {"type": "tally.pruned", "payload": {}},
        {"type": "noted", "payload": {"key": "AKIA" + "ABCDEFGHIJKLMNOP"}},
        {"payload": {}},
        7,
    ],
)
def test_19_a_batch_with_one_bad_event(served: Any, bad: Any) -> None:
    """All or nothing: the good events are not recorded either."""
    before = served.service.store.head()
    body = json.dumps({"events": [ONE, bad, ONE]})
    is_problem(served.client.post(PATH, content=body, headers=JSON), 422)
    parts = {"parts": [{"stream": "order/1", "events": [ONE]}, {"stream": "order/2", "events": [bad]}]}
    is_problem(served.client.post("/v1/append", content=json.dumps(parts), headers=JSON), 422)
    assert served.service.store.head() == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"7",
        b"[]",
        b"{",
        b'{"events":[]}',
        b'{"events":[{"type":"a","payload":{"x":1,"x":2}}]}',
        b'{"events":[{"type":"a","type":"b","payload":{}}]}',
        b'{"events":[{"type":"a","payload":{}}],"events":[]}',
        b'{"events":[{"type":"a","payload":{"\\ud800":1}}]}',
        b'{"events":[{"type":"a","payload":{"a\\u0000":1}}]}',
        b'{"events":[{"type":"a","payload":{"n":1e999}}]}',
        b'{"events":[{"type":"a","payload":{"n":' + b"9" * 5000 + b"}}]}",
        b'{"events":[{"type":"a","payload":{"n":' + b"[" * 100_000,
        b'{"events":[{"type":"a","payload":{"n":' + b"[" * 300 + b"]" * 300 + b"}}]}",
        b'{"events":[{"type":"a","payload":{"n":"\xff"}}]}',
        b'\xef\xbb\xbf{"events":[{"type":"a","payload":{}}]}',
        '{"events":[{"type":"a","payload":{}}]}'.encode("utf-16"),
        b'{"events":[{"type":"a","payload":{}}]} x',
        b'{"events":[{"type":"a","payload":{}}]}{}',
        b'{"events":[{"type":"a","payload":{"n":[' + b"{}," * 600_000 + b"{}]}}]}",
        b'{"events":[{"type":"a","payload":{"n":"' + b"x" * (1 << 20) + b'"}}]}',
        b'{"parts":[]}',
    ],
    ids=range(23),
)
def test_bodies_that_are_not_events(served: Any, body: bytes) -> None:
    """A body that is not strict JSON of the right shape and size is refused, on both routes."""
    for path in (PATH, "/v1/append"):
        is_problem(served.client.post(path, content=body, headers=JSON), 413, 422)


def test_20_many_appends_with_one_expectation(serve: Any) -> None:
    """Of 1,000 appends with the same expectation one is recorded, and 999 are conflicts."""
    served = serve()

    def client(number: int) -> list[int]:
        with served.as_("") as connection:
            body = {"events": [ONE], "expected": 0}
            return [connection.post(PATH, json=body).status_code for _ in range(100)]

    with ThreadPoolExecutor(10) as threads:
        statuses = [status for found in threads.map(client, range(10)) for status in found]
    assert sorted(statuses) == [201] + [409] * 999
    assert served.service.store.head() == 1
