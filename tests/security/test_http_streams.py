"""Attacks by those who follow: after their token is gone, and with places that are not there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import tallystick
from tallystick import NewEvent
from tallystick.server.api.follow import FAREWELL_SECONDS
from tallystick.server.settings import Limits
from tallystick.server.tokens import FRESH_SECONDS, Tokens
from tallystick.testing.clock import ManualClock
from tests.server.conftest import Served, serving

pytestmark = pytest.mark.security

AUTHORISE_SECONDS = 0.3
SECONDS = 5.0
FUTURE = 1 << 62
DAY_SECONDS = 24 * 3600

API = "/v1/follow?after=0"
CONSOLE = "/console/data/tail?after=0"


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test."""
    with serving() as start:
        yield start


class Leak:
    """A service with tokens, and a client that follows with one of them."""

    def __init__(self, serve: Any, kind: str) -> None:
        self.clock = ManualClock()
        self.store = tallystick.open("memory:", clock=self.clock)
        self.tokens = Tokens(self.store)
        org = "acme" if kind == "tenant" else None
        self.issued = self.tokens.issue(kind, actor="mallory", org=org, days=1)
        self.served: Served = serve(self.store, tokens=self.tokens, limits={"authorise_seconds": AUTHORISE_SECONDS})

    def note(self) -> None:
        """One more event that the follower may see."""
        self.store.append("order/1", NewEvent("noted", {"n": 1}, meta={"org": "acme"}))

    def headers(self, path: str) -> dict[str, str]:
        """How a client shows its token at a path."""
        secret = self.issued.secret
        return {"cookie": f"tally_console={secret}"} if path == CONSOLE else {"authorization": f"Bearer {secret}"}


def ended_within(leak: Leak, answer: httpx.Response, seconds: float) -> bool:
    """Whether a stream ends, while there is always something new to send."""
    until = time.monotonic() + seconds
    for _ in answer.iter_raw():
        if time.monotonic() > until:
            return False
        leak.note()
    return True


@pytest.mark.parametrize("how", ["revoked", "expired"])
@pytest.mark.parametrize(("path", "kind"), [(API, "tenant"), (API, "admin"), (CONSOLE, "admin")])
def test_a_stream_ends_when_its_token_is_gone(serve: Any, path: str, kind: str, how: str) -> None:
    """CP-10: a follower is authorised again, so after its token was revoked or has expired it gets no more events."""
    leak = Leak(serve, kind)
    leak.note()
    client = leak.served.as_("")
    with client, client.stream("GET", path, headers=leak.headers(path)) as answer:
        assert answer.status_code == 200
        if how == "revoked":
            leak.tokens.revoke(leak.issued.token.id)
        else:
            leak.clock.advance(seconds=2 * DAY_SECONDS)
        assert ended_within(leak, answer, SECONDS)


def test_a_follower_is_authorised_again_soon() -> None:
    """CP-10: the default is well within the five seconds that are promised."""
    assert Limits().authorise_seconds + FRESH_SECONDS + FAREWELL_SECONDS < 5


def test_a_stream_without_a_token_ends_with_the_first_token(serve: Any) -> None:
    """CP-10: without a token every caller on the machine may follow, and nobody continues after one was issued."""
    leak = Leak(serve, "tenant")
    leak.store = tallystick.open("memory:")
    served = serve(leak.store, tokens=Tokens(leak.store), limits={"authorise_seconds": AUTHORISE_SECONDS})
    with served.client.stream("GET", API) as answer:
        leak.note()
        served.service.tokens.issue("admin", actor="ada")
        assert ended_within(leak, answer, SECONDS)


def test_a_stream_continues_while_its_token_is_valid(serve: Any) -> None:
    """Being authorised again does not disturb those who may follow."""
    leak = Leak(serve, "tenant")
    leak.note()
    with leak.served.as_(leak.issued.secret) as client, client.stream("GET", API) as answer:
        assert not ended_within(leak, answer, 5 * AUTHORISE_SECONDS)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def taken(answer: httpx.Response, count: int) -> list[int]:
    """The ids of the next messages with data."""
    found: list[int] = []
    id_ = 0
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            id_ = int(value.partition(".")[0])
        elif field == "data":
            found.append(id_)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("place", [{"params": {"after": FUTURE}}, {"headers": {"last-event-id": str(FUTURE)}}])
def test_a_place_that_is_not_there_is_refused(serve: Any, place: dict[str, Any]) -> None:
    """A position past the head does not belong to this log: the client is refused, and must not wait for events."""
    served = serve()
    served.append("order/1", {})
    with served.client.stream("GET", "/v1/follow", **place) as answer:
        assert answer.status_code == 409
        assert answer.read()
        assert (answer.json()["code"], answer.json()["values"]) == ("position_ahead", {"position": FUTURE, "head": 1})


def test_a_position_in_the_future_does_not_move_other_followers(serve: Any) -> None:
    """SAFE-09: One follower's place is its own: others miss nothing, get no foreign ids, and are not flooded."""
    served = serve(limits={"heartbeat_seconds": 0.5})
    served.append("order/1", {})
    with served.as_("") as hostile, hostile.stream("GET", f"/v1/follow?after={FUTURE}"):
        with served.client.stream("GET", "/v1/follow?after=0") as answer:
            received, ids = 0, []
            until = time.monotonic() + 2
            for line in answer.iter_lines():
                received += 1
                ids += [int(line[4:].partition(".")[0])] if line.startswith("id: ") else []
                if time.monotonic() > until:
                    break
        assert max(ids) == 1
        assert received < 50
        with served.client.stream("GET", "/v1/follow?after=1") as answer:
            served.append("order/1", {})
            assert taken(answer, 1) == [2]


def test_a_position_in_the_past_does_not_delay_other_followers(serve: Any) -> None:
    """SAFE-09: Somebody who reads a long log from its beginning reads it alone: events go to the others at once."""
    served = serve()
    store = served.service.store
    for _ in range(30):
        store.append("order/1", [NewEvent("noted", {"n": n}) for n in range(10_000)])
    head = store.head()
    with served.as_("") as hostile, hostile.stream("GET", "/v1/follow?after=0"):
        until(lambda: served.service.tail.position > 0)
        assert served.service.tail.position == head
        with served.client.stream("GET", f"/v1/follow?after={head}") as answer:
            served.append("order/2", {})
            assert taken(answer, 1) == [head + 1]
