"""Bad tags, queries and markers over HTTP: each is refused by name, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, match
from tests.server.test_conditions import add, items, post, tagged

MANY = [f"t:{number}" for number in range(33)]
BAD_ITEMS: list[Any] = [
    [],
    items() * 65,
    items("a" * 257),
    items("ü" * 129),
    items(""),
    items("a\n"),
    items("a\x00"),
    items(*MANY),
    items(types=["no type!"]),
    items(types=[f"t.x{number}" for number in range(65)]),
    [{"types": "noted"}],
    [{"tags": "a:1"}],
    [{"tags": [1]}],
    [{"tag": ["a:1"]}],
    [7],
    [None],
    {},
    "a:1",
    None,
]
BAD_PLACES: list[Any] = [
    {"after": 99},
    {"after": -1},
    {"after": 2**63},
    {"after": True},
    {"after": 1.0},
    {"after": "x"},
    {"after": "99"},
    {"after": None},
    {"after": ""},
    {"beyond": -1},
    {"beyond": 10_001},
    {"beyond": 2**63},
    {"beyond": "0"},
    {"beyond": None},
    {"until": 1},
]
REFUSED = ("invalid_value", "invalid_input", "invalid_name", "not_canonical", "too_large")
BAD_TAGS: list[Any] = [[""], ["a" * 257], ["ü" * 129], ["a\n"], ["a\x00"], [1], [None], "course:c1", 7, {}, None, MANY]


@pytest.fixture(scope="module")
def untouched(listen: Any) -> Iterator[Any]:
    """A service whose store has one event, and keeps it at that."""
    running = listen(tallystick.open("memory:"))
    running.service.store.append("order/0", NewEvent("noted", {}, tags=["a:1"]))
    yield running
    assert running.service.store.head() == 1
    running.stop()


def refused(answer: Any) -> None:
    """A problem that names what is wrong."""
    assert answer.status_code in (413, 422), (answer.status_code, answer.text)
    assert answer.json()["code"] in REFUSED, answer.text
    assert answer.json()["detail"]


@pytest.mark.parametrize("given", BAD_ITEMS, ids=range(len(BAD_ITEMS)))
def test_a_bad_query_is_refused(untouched: Any, given: Any) -> None:
    """TAG-02: on both routes of appends, and on consultations."""
    refused(post(untouched, "/v1/consult", {"items": given}))
    refused(add(untouched, "order/1", tagged("a:1"), unless={"items": given}))
    part = {"stream": "order/1", "events": [tagged("a:1")]}
    refused(post(untouched, "/v1/append", {"parts": [part], "unless": {"items": given}}))


@pytest.mark.parametrize("place", BAD_PLACES, ids=map(repr, BAD_PLACES))
def test_a_bad_place_is_refused(untouched: Any, place: dict[str, Any]) -> None:
    """TAG-02: a place above the head, or one that is none."""
    refused(add(untouched, "order/1", tagged("a:1"), unless={"items": items("a:1")} | place))


def test_a_condition_has_its_place_in_the_request(untouched: Any) -> None:
    """TAG-02: a condition where it would be passed over is refused: on a part, in an event, and in the address."""
    unless = {"items": items("b:1")}
    part = {"stream": "order/1", "events": [tagged()]}
    refused(post(untouched, "/v1/append", {"parts": [part | {"unless": unless}]}))
    refused(add(untouched, "order/1", tagged(unless=unless)))
    refused(post(untouched, "/v1/streams/order/1/events?unless=x", {"events": [tagged()]}))
    refused(post(untouched, "/v1/consult?after=1", unless))
    refused(add(untouched, "order/1", tagged(), unless=[unless]))


@pytest.mark.parametrize("given", BAD_TAGS, ids=lambda given: repr(given)[:20])
def test_bad_tags_are_refused(untouched: Any, given: Any) -> None:
    """TAG-01: as `tags`, and in the meta, except for the object form, which holds labels."""
    refused(add(untouched, "order/1", tagged() | {"tags": given}))
    if not isinstance(given, (dict, type(None))):
        refused(add(untouched, "order/1", {"type": "noted", "payload": {}, "meta": {"tags": given}}))


@pytest.mark.parametrize("given", [["a" * 257], ["a\n"], [""], MANY], ids=range(4))
def test_a_bad_tag_is_refused_by_filters(untouched: Any, given: list[str]) -> None:
    """TAG-01: a filter that no event can pass is a mistake, and not an empty page."""
    for path in ("/v1/events", "/v1/follow"):
        refused(untouched.client.get(path, params={"tag": given}))


def test_a_marker_of_another_store_is_refused(untouched: Any) -> None:
    """TAG-02: its positions mean other events."""
    with tallystick.open("memory:") as other:
        other.append("order/1", NewEvent("noted", {}, tags=["a:1"]))
        marker = other.consult(match(tags=["a:1"])).marker
    answer = add(untouched, "order/1", tagged(), unless={"items": items("b:1"), "after": marker.after})
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_store")


def test_an_engine_without_conditions_says_so(serve: Any, tmp_path: Any) -> None:
    """TAG-02: a store of runs refuses them by name, and writes nothing."""
    served = serve(f"ndjson:{tmp_path}/runs", profile="run")
    asked = {"items": items("a:1")}
    for answer in (post(served, "/v1/consult", asked), add(served, "run/a", tagged(), unless=asked)):
        assert (answer.status_code, answer.json()["code"]) == (501, "unsupported_capability")
    assert served.service.store.stream_head("run/a") is None
