"""Attacks on what the service says: whose a stream or an id is, what a payload holds, where the store is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.event import chain, ids
from tallystick.server.merge import merge
from tallystick.server.tokens import Tokens
from tests.server.conftest import Book, Served, serving

pytestmark = pytest.mark.security


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test."""
    with serving() as start:
        yield start


def tenants() -> Book:
    """Two orgs, and a service that appends for any."""
    return Book(t=("tenant", "acme"), acme=("writer", "acme"), beta=("writer", "beta"), any=("writer", None))


PATHS = (
    "/v1/streams/note/1",
    "/v1/streams/note/1/events",
    "/v1/streams/note/1/state",
    "/v1/streams/note/none",
)


def test_events_without_an_org_stay_hidden_when_their_stream_gets_one(serve: Any) -> None:
    """CP-10: events without an org belong to nobody. A stream that gets an org later is hidden from that org."""
    served = serve(tokens=tenants())
    served.append("note/1", {"pin": "1234"}, token="any")
    served.append("note/1", {"text": "for acme"}, token="any", meta={"org": "acme"})
    served.append("note/2", {"text": "for acme"}, token="any", meta={"org": "acme"})
    served.append("note/2", {"text": "still theirs"}, token="any")
    with served.as_("t") as client:
        answers = [client.get(path) for path in PATHS]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, answers[-1].text)}
        listed = client.get("/v1/streams").json()["streams"]
        assert [stream["stream"] for stream in listed] == ["note/2"]
        own = client.get("/v1/streams/note/2/events").json()
        assert ([event["payload"] for event in own["events"]], own["through"]) == ([{"text": "for acme"}], 2)
        assert client.get("/v1/streams/note/2/state").status_code == 404, "it has what is nobody's in it"
        seen = client.get("/v1/events").json()["events"]
        assert [event["payload"] for event in seen] == [{"text": "for acme"}] * 2
        assert client.get(f"/v1/events/{seen[0]['id']}").status_code == 200
    assert served.append("note/1", {}, token="acme").status_code == 404
    assert served.append("note/1", {}, token="acme", expected=2).status_code == 404


@pytest.mark.parametrize("pruned", [1, 2])
@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_events_without_an_org_stay_hidden_after_a_prune(serve: Any, tmp_path: Path, engine: str, pruned: int) -> None:
    """CP-10: neither in a state that started in pruned events, nor in events that are left, on any route."""
    url = f"{engine}:{tmp_path}/log"
    with tallystick.open(url) as store:
        for payload, org in (({"pin": "1234"}, None), ({"a": 1}, "acme"), ({"code": "5678"}, None), ({"b": 2}, "acme")):
            store.append("note/1", NewEvent("noted", payload, meta={"org": org} if org else None))
        store.append("note/2", [NewEvent("noted", {"n": n}, meta={"org": "acme"}) for n in range(3)])
        for stream in ("note/1", "note/2"):
            state.prune(store, stream, before=pruned + 1, reducers=[merge], snapshot=True, accept=True)
    served = serve(url, tokens=tenants())
    with served.as_("t") as client:
        for path in (*PATHS[:3], "/v1/streams/note/1/state?seq=4", f"/v1/streams/note/1/events?after={pruned}"):
            answer = client.get(path).text
            assert "1234" not in answer, path
            assert "5678" not in answer, path
        assert client.get("/v1/streams/note/2/state").json()["state"] == {"n": 2}


def appended(served: Served, token: str, stream: str, id_: str, payload: dict[str, Any]) -> tuple[int, str]:
    """The answer to an append of an event with this id."""
    body = {"events": [{"type": "noted", "payload": payload, "id": id_}]}
    with served.as_(token) as client:
        answer = client.post(f"/v1/streams/{stream}/events", json=body)
    return answer.status_code, answer.text


def test_an_id_of_another_org_is_not_revealed(serve: Any) -> None:
    """CP-10, SAFE-09: an id that cannot be used is refused in one way, whether it is of another org, of none, or
    pruned.
    """
    served = serve(tokens=tenants())
    store = served.service.store
    others, nobodys, own = (ids.to_text(id_) for id_ in ids.default.mint(3, time_ns=1))
    assert appended(served, "beta", "order/b", others, {"n": 1})[0] == 201
    assert appended(served, "any", "order/n", nobodys, {"n": 1})[0] == 201
    assert appended(served, "acme", "order/a", own, {"n": 1})[0] == 201
    for taken in (others, nobodys):
        status, text = appended(served, "acme", "order/a", taken, {"n": 1})
        assert (status, json.loads(text)["code"]) == (409, "id_unusable")
        assert "duplicate" not in text
        assert "stored" not in text
    status, text = appended(served, "acme", "order/a", own, {"n": 2})
    assert (status, json.loads(text)["code"]) == (409, "duplicate_id")
    assert appended(served, "acme", "order/a", own, {"n": 1})[0] == 201
    assert store.head() == 3


@pytest.mark.parametrize(
    "host",
    [
        *("[::1].evil.com", "localhost:80@evil.com", "[::1]@evil.com", "[::1", "[::1]x", "[localhost]", "localhost:"),
        *("localhost:x", "localhost:123456", "127.0.0.1:80:80", "[::1%25evil.com]", "[::1%evil]", "localhost/x", "a b"),
        *("localhost,evil.com", "localhost#evil", "localhost?evil", "localhost\\evil.com", "127.0.0.1.", "127.1"),
    ],
)
def test_a_host_is_a_name_and_a_port_and_nothing_more(serve: Any, host: str) -> None:
    """A page that reaches the service by a name of its own is refused, whatever surrounds ours in it."""
    served = serve()
    answer = served.raw(f"GET /v1/store HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 ")), answer[:200]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8787", "[::1]", "[::1]:80", "10.1.2.3"])
def test_our_own_names_are_answered(serve: Any, host: str) -> None:
    """An address is always accepted, with a port or without; a name only if it is ours."""
    answer = serve().raw(f"GET /v1/store HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[]", b"null", b"\xff", b'"x"', b"1", b'{"kind":1}', b"{"])
def test_a_body_that_is_no_order_is_refused_everywhere(serve: Any, body: bytes | None) -> None:
    """Every route that takes a body answers an empty or a foreign one with a problem, and never with 500."""
    store = tallystick.open("memory:")
    served = serve(store, tokens=Tokens(store))
    with served.client as client:
        paths = client.get("/openapi.json").json()["paths"]
        for path, route in paths.items():
            if "post" in route:
                target = path.replace("{kind}", "order").replace("{name}", "1").replace("{id}", "00" * 16)
                answer = client.post(target, content=body, headers={"content-type": "application/json"})
                assert answer.status_code < 500 or answer.status_code == 501, (path, answer.text)
                assert path != "/v1/tokens" or answer.status_code == 422


FORGED = {
    "a line break": b'{"a":1}\n\ndata: {"forged":1}',
    "line breaks between values": b'{"a":\n1}',
    "a carriage return": b'{"a":\r1}',
    "another field": b'{"a":1},"checksum":"00","payload":{"b":2}',
    "another event": b'{}},{"position":9,"payload":{}',
    "no JSON": b"hello",
    "no object": b'["a"]',
    "no UTF-8": b'{"a":"\xff"}',
    "nothing": b"",
    "an erased one": b"null",
    "half": b'{"a":',
}


@pytest.mark.parametrize("payload", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("path", ["/v1/events", "/v1/streams/order/1/events", "/v1/follow?after=0"])
def test_a_forged_payload_invents_no_event(serve: Any, payload: bytes, path: str) -> None:
    """Somebody who can write the store and its checksums gets no text of theirs into a response: it is damage."""
    served = serve()
    store = served.service.store
    store.append("order/1", NewEvent("noted", {}))
    forge(store, payload)
    answer = served.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (503, "damaged")
    assert answer.json()["values"]["first"] == 1
    assert b"forged" not in answer.content


def test_forged_meta_invents_no_event(serve: Any) -> None:
    """The same for meta, which is also embedded as it is stored."""
    served = serve()
    store = served.service.store
    store.append("order/1", NewEvent("noted", {}))
    forge(store, b"{}", meta=b'{"a":1}\n\ndata: x')
    assert served.client.get("/v1/events").status_code == 503


def forge(store: Any, payload: bytes, *, meta: bytes = b"{}") -> None:
    """Change the one event of a memory store as one would who can write its file: with checksum and link."""
    log = store.log
    row = list(log._events[0].row)
    row[7], row[8], row[9] = payload, meta, chain.checksum(payload)
    event = type(log._events[0])(*row)
    row[10] = chain.link(event, chain.GENESIS)
    log._events[0] = type(event)(*row)
    log._streams["order/1"][0] = log._by_id[event.id] = log._events[0]


@pytest.mark.parametrize(
    "problem",
    [
        errors.StoreFailed(operation="a statement", reason='violates unique constraint "events_id_key"'),
        errors.NotReachable(url="postgresql://app:hunter2@db/x", reason="no route to db"),
        errors.ReadOnly(reason="postgresql://app:hunter2@db/x events_id_key was opened for reading"),
        errors.NoSpace(needed=10, path="/srv/hunter2"),
        errors.Damaged(first=1, last=2, reason="/srv/hunter2/current.log events_id_key"),
        RuntimeError("hunter2 events_id_key"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/events", "/ready", "/health", "/console/events"])
def test_an_answer_does_not_say_where_the_store_is(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, problem: Exception, path: str
) -> None:
    """No URL, path, index or trace is in an answer; the log has the reason, under the request id of the answer."""
    served = serve()

    def fail(*given: Any, **named: Any) -> Any:
        raise problem

    for name in ("read", "head", "read_stream"):
        monkeypatch.setattr(served.service.store.log, name, fail)
    with caplog.at_level(logging.WARNING):
        answer = served.client.get(path)
    for secret in ("hunter2", "events_id_key", "Traceback", "db"):
        assert secret not in answer.text.replace("db8", "")
    if path == "/v1/events":
        assert answer.status_code >= 500
        id_ = answer.headers["x-request-id"]
        deadline = time.monotonic() + 20  # the answer may be there before the log
        while not any(getattr(record, "request_id", "") == id_ for record in caplog.records):
            assert time.monotonic() < deadline
            time.sleep(0.01)
