"""Appending over HTTP: all or nothing, where it was expected, stamped, and on disk when it is answered."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tallystick
from tallystick.engines.disk import Disk
from tallystick.testing.faults import FaultyFileSystem

ONE = {"type": "noted", "payload": {"n": 1}}


def test_an_answer_says_where_the_events_are(serve: Any) -> None:
    """The response has the stream, seqs, positions and link of the last event, as reading gives them."""
    served = serve()
    done = served.append("order/1", {"n": 1}, {"n": 2})
    assert done.status_code == 201
    told = done.json()
    events = served.client.get("/v1/streams/order/1/events").json()["events"]
    assert [event["payload"] for event in events] == [{"n": 1}, {"n": 2}]
    assert (told["first_seq"], told["last_seq"]) == (1, 2)
    assert (told["first_position"], told["last_position"]) == tuple(event["position"] for event in events)
    assert told["link"] == events[-1]["link"]


@pytest.mark.parametrize(
    ("expected", "status"), [(0, 201), ("none", 201), ("any", 201), (None, 201), (1, 409), (7, 409)]
)
def test_a_stream_that_is_elsewhere_is_a_conflict(serve: Any, expected: Any, status: int) -> None:
    """`expected` is a seq, `none` or `any`. A wrong one is 409 with both numbers, and nothing is written."""
    served = serve()
    done = served.append("order/1", {}, expected=expected)
    assert done.status_code == status
    if status == 409:
        assert done.headers["content-type"] == "application/problem+json"
        assert done.json()["code"] == "conflict"
        assert done.json()["values"] == {"stream": "order/1", "actual": 0, "expected": expected}
    assert served.service.store.head() == (1 if status == 201 else 0)


def test_several_streams_commit_together_or_not_at_all(serve: Any) -> None:
    """CP-05: one wrong expectation refuses every part."""
    served = serve()
    parts = [{"stream": "a/1", "events": [ONE]}, {"stream": "b/1", "events": [ONE, ONE], "expected": "none"}]
    done = served.client.post("/v1/append", json={"parts": parts})
    assert done.status_code == 201
    assert [part["last_seq"] for part in done.json()["parts"]] == [1, 2]
    again = served.client.post("/v1/append", json={"parts": parts})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert served.service.store.head() == 3


def test_a_retry_by_event_id_writes_nothing(serve: Any) -> None:
    """The same id and content is stored once, although each request has an id of its own."""
    served = serve()
    event = ONE | {"id": str(uuid.uuid4())}
    first, second = (served.client.post("/v1/streams/a/1/events", json={"events": [event]}) for _ in range(2))
    assert (first.json()["stored"], second.json()["stored"]) == (0, 1)
    assert first.json()["last_position"] == second.json()["last_position"]
    other = served.client.post("/v1/streams/a/1/events", json={"events": [event | {"payload": {"n": 2}}]})
    assert (other.status_code, other.json()["code"]) == (409, "duplicate_id")
    assert served.service.store.head() == 1


def test_org_actor_and_request_are_stamped_from_the_token(serve: Any, book: Any) -> None:
    """CP-10: the meta names the caller by its token."""
    served = serve(tokens=book(w=("writer", "acme")))
    done = served.append("order/1", {}, token="w", meta={"app": "shop"}, headers={"x-request-id": "r-7"})
    assert done.headers["x-request-id"] == "r-7"
    (event,) = served.service.store.read().events
    assert event.metadata == {
        "org": "acme",
        "app": "shop",
        "actor_type": "service_principal",
        "actor_id": "w-actor",
        "request_id": "r-7",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [("org", "other"), ("actor_id", "root"), ("actor_type", "system"), ("request_id", "r"), ("idempotency_key", "k")],
)
def test_a_body_that_names_others_is_refused(serve: Any, book: Any, key: str, value: str) -> None:
    """CP-10: a body cannot contradict what the token says."""
    served = serve(tokens=book(w=("writer", "acme")))
    done = served.append("order/1", {}, token="w", meta={key: value})
    assert (done.status_code, done.json()["code"]) == (403, "stamp_refused")
    assert served.service.store.head() == 0


def test_a_caller_without_an_org_may_name_any(serve: Any, book: Any) -> None:
    """A person on this machine, and a service of all orgs, say which org an event is for."""
    served = serve()
    assert served.append("order/1", {}, meta={"org": "acme"}).status_code == 201
    tokened = serve(tokens=book(w=("writer", None)))
    assert tokened.append("order/1", {}, token="w", meta={"org": "acme"}).status_code == 201
    assert tokened.service.store.stream_head("order/1").org == "acme"


class Held(FaultyFileSystem):
    """A disk whose next sync of the log takes until it is let go; counts the syncs of the log."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.syncs = 0

    def is_due(self, operation: str, path: str) -> bool:
        """Wait, and count."""
        if operation == "sync" and path.endswith("current.log"):
            self.entered.set()
            assert self.go.wait(60)
            self.syncs += 1
        return super().is_due(operation, path)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("keyed", [False, True])
def test_appends_that_wait_together_share_a_sync(serve: Any, tmp_path: Any, keyed: bool) -> None:
    """What arrives during one sync goes into the next, with and without an idempotency key."""
    disk = Held()
    served = serve(tallystick.open(f"files:{tmp_path}/log", filesystem=disk))
    before = disk.syncs
    disk.go.clear()
    disk.entered.clear()

    def append(number: int) -> int:
        headers = {"idempotency-key": str(number)} if keyed else {}
        return int(served.append(f"a/{number}", {}, headers=headers).status_code)

    with ThreadPoolExecutor(16) as threads:
        first = threads.submit(append, 0)
        assert disk.entered.wait(60)
        others = [threads.submit(append, number) for number in range(1, 16)]
        until(lambda: served.service.log.waiting == 15)
        disk.go.set()
        assert {done.result() for done in (first, *others)} == {201}
    assert disk.syncs - before == 2
    assert served.service.store.head() == 16
