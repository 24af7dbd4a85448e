"""What one tenant appends ends no stream and no page of another's, and blocks no projection, consumer or erasure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, state
from tallystick.projections import Consumer, Live, Projection, ViewReader, rebuild
from tallystick.testing import postgres
from tallystick.testing.contract.neighbours import CALL, GROWN, dense, failing_catalog
from tests.server.conftest import ENGINES, Book, Served, serving

pytestmark = pytest.mark.security


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test."""
    with serving() as start:
        yield start


@pytest.fixture
def served(serve: Any) -> Served:
    """Two tenants' writers, and an admin."""
    tokens = Book(mallory=("writer", "acme"), ben=("writer", "beta"), ada=("admin", None))
    return serve(tallystick.open("memory:", catalog=failing_catalog()), tokens=tokens)


def poison(served: Served) -> None:
    """An event that no upcaster can lift, by a tenant."""
    event = {"type": GROWN, "version": 1, "payload": CALL}
    with served.as_("mallory") as client:
        assert client.post("/v1/streams/order/1/events", json={"events": [event]}).status_code == 201


def messages(lines: Iterator[str], count: int) -> list[str]:
    """The streams of the next so many events; what the service says at the end instead, if it ends."""
    found = []
    for line in lines:
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: "))["stream"])
        if len(found) == count or line.startswith(": reading failed"):
            break
    return found


def test_an_event_that_cannot_be_upcast_does_not_end_a_stream(served: Served) -> None:
    """SAFE-09: followers get events as they are stored; those of another tenant and of the admin continue."""
    path = "/v1/follow?after=0"
    with (
        served.as_("ben") as ben,
        served.as_("ada") as ada,
        ben.stream("GET", path) as theirs,
        ada.stream("GET", path) as every,
    ):
        poison(served)
        served.append("order/2", {"n": 1}, token="ben")
        assert messages(theirs.iter_lines(), 1) == ["order/2"]
        assert messages(every.iter_lines(), 2) == ["order/1", "order/2"]


def test_an_event_that_cannot_be_lifted_is_on_its_page(served: Served) -> None:
    """SAFE-09: every route that returns events returns it as it is stored, next to those of others."""
    poison(served)
    served.append("order/2", {"n": 1}, token="ben")
    with served.as_("ada") as ada:
        page = ada.get("/v1/events").json()["events"]
        assert [event["stream"] for event in page] == ["order/1", "order/2"]
        assert page[0]["payload"] == CALL
        paths = ["/v1/streams/order/1/events", f"/v1/events/{page[0]['id']}", "/console", "/console/streams/order/1"]
        assert [ada.get(path, follow_redirects=True).status_code for path in paths] == [200] * len(paths)


class Calls(Projection):
    """How often each agent called."""

    types = (GROWN,)
    key = "payload.agent_id"

    def initial(self) -> Any:
        """Never."""
        return {"calls": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """Once more."""
        return {"calls": state["calls"] + 1}


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place for a store of each engine."""
    engine = str(request.param)
    if engine == "postgres":
        with postgres.database() as found:
            yield str(found)
    else:
        yield "memory:" if engine == "memory" else f"{engine}:{tmp_path}/log"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with an event that cannot be lifted between two that can."""
    with tallystick.open(url, catalog=failing_catalog()) as opened:
        for call in ({"n": 1}, {}, {"n": 2}):
            opened.append("order/1", NewEvent(GROWN, CALL | {"tool_input": call}, version=1))
        yield opened


def hostile_bodies() -> Iterator[dict[str, Any]]:
    """Appends with names and sizes at the limits and past them."""
    event: dict[str, Any] = {"type": "noted", "payload": {}}
    for size in (900, 1100, 5000):
        yield event | {"meta": {"source": dense(size, seed=size), "source_seq": 1}}
        yield event | {"meta": {"app": dense(size, seed=size), "tags": {dense(size, seed=1): dense(size, seed=2)}}}
    yield event | {"meta": {"source": "s", "source_seq": (1 << 63) - 1}}
    yield event | {"time": (1 << 63) - 1, "version": (1 << 31) - 1, "type": "t" * 128}
    yield event | {"payload": {"x": "a" * 900_000}}
    yield event | {"payload": {"x": "a" * (1 << 20)}}


def test_hostile_names_fail_no_append_of_another_tenant(serve: Any, url: str, tmp_path: Path) -> None:
    """SAFE-09: it was once 150 × 201 and 884 × 503; now all that share commits with them get 201."""
    served = serve(url, tokens=Book(mallory=("writer", "acme"), ben=("writer", "beta")))
    told: list[str] = []

    def attack(number: int) -> set[int]:
        found = set()
        with served.as_("mallory") as client:
            for at, event in enumerate(hostile_bodies()):
                key = dense(400 + 1000 * (at % 2), seed=number * 100 + at).encode()
                answer = client.post(
                    f"/v1/streams/order/m{number}-{at}/events",
                    json={"events": [event]},
                    headers={"idempotency-key": key} if at % 3 else {},
                )
                found.add(answer.status_code)
                told.append(answer.text)
        return found

    def honest(number: int) -> list[int]:
        return [served.append(f"order/b{number}", {"n": at}, token="ben").status_code for at in range(25)]

    with ThreadPoolExecutor(8) as pool:
        attacks, appends = ([pool.submit(act, number) for number in range(4)] for act in (attack, honest))
        assert set().union(*[each.result() for each in attacks]) == {201, 409, 413, 422}
        assert {status for each in appends for status in each.result()} == {201}
    assert not [text for text in told if any(word in text for word in ("postgresql:", str(tmp_path), "_pkey", "btree"))]


def test_a_consumer_goes_past_an_event_that_cannot_be_lifted(store: Store) -> None:
    """SAFE-09: it is a dead letter, as is any event that its handler fails on; the rest is handled."""
    seen: list[int] = []
    consumer = Consumer(store, "mails", lambda event: seen.append(event.data["n"]), attempts=1)
    assert consumer.catch_up() == 3
    assert seen == [1, 2]
    assert [letter.position for letter in store.log.dead_letters.letters("mails", limit=10)] == [2]


def test_an_event_that_cannot_be_lifted_can_be_erased(store: Store) -> None:
    """SAFE-09: a person who has a right to be forgotten is forgotten, whatever an upcaster says of their payload."""
    with pytest.raises(errors.SchemaIncompatible):
        _ = store.read().events[1].data
    Live(store, Calls()).catch_up(until=1)
    state.erase(store, "order/1", 2, reason="asked for")
    assert [event.erased for event in store.read_stream("order/1")] == [False, True, False]
    rebuild(store, Calls())
    assert ViewReader(store, "Calls").get("a") == {"calls": 2}
