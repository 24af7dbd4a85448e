"""Tags, consultations and conditions over HTTP: as in the library, and each org for itself."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tallystick
from tallystick import Catalog, NewEvent
from tallystick.server.api import append, conditions
from tallystick.server.http import idempotency
from tallystick.testing import upkeep

TOKENS = {"acme": ("writer", "acme"), "bolt": ("writer", "bolt"), "all": ("writer", None), "reader": ("tenant", "acme")}


@pytest.fixture
def guarded(serve: Any, book: Any) -> Any:
    """A service with callers of two orgs, of all, and one that reads."""
    return serve(tokens=book(**TOKENS))


def tagged(*tags: str, type: str = "noted", **more: Any) -> dict[str, Any]:
    """An event with tags, as a request has it."""
    return {"type": type, "payload": {"n": 1}, "tags": list(tags)} | more


def items(*tags: str, types: list[str] | None = None) -> list[dict[str, Any]]:
    """A query of one item."""
    return [{"types": types or [], "tags": list(tags)}]


def post(served: Any, path: str, body: dict[str, Any], *, token: str = "", **headers: str) -> Any:
    """The answer to a request with this body."""
    with served.as_(token) as client:
        return client.post(path, json=body, headers=headers)


def consult(served: Any, asked: list[dict[str, Any]], *, token: str = "", **more: Any) -> Any:
    """A consultation that succeeds."""
    answer = post(served, "/v1/consult", {"items": asked} | more, token=token)
    assert answer.status_code == 200, answer.text
    return answer.json()


def add(served: Any, stream: str, *events: dict[str, Any], token: str = "", **body: Any) -> Any:
    """The answer to an append."""
    return post(served, f"/v1/streams/{stream}/events", {"events": list(events)} | body, token=token)


# --- tags, and reading by them ----------------------------------------------------------------------------------------


def test_tags_go_in_and_come_out(everywhere: Any, fresh: str) -> None:
    """TAG-01: an event has its tags in the meta, sorted and once, also if the meta of the request has them."""
    assert add(everywhere, fresh, tagged("b:1", "a:1", "b:1"), tagged(meta={"tags": ["c:1"]})).status_code == 201
    found = everywhere.client.get(f"/v1/streams/{fresh}/events").json()["events"]
    assert [event["meta"]["tags"] for event in found] == [["a:1", "b:1"], ["c:1"]]


def test_every_list_selects_by_tags_cause_and_actor(serve: Any) -> None:
    """TAG-01: reading and following select by all the tags, and by the exact texts in the meta."""
    served = serve()
    for number in range(12):
        meta = {"correlation_id": f"c{number % 2}", "causation_id": f"k{number % 3}"}
        tags = [f"m2:{number % 2}", f"m3:{number % 3}", "a&b=c d"]
        add(served, f"order/{number % 5}", {"type": "noted", "payload": {"n": number}, "tags": tags, "meta": meta})
    wanted = {
        (("tag", "m2:1"), ("tag", "m3:2")): [5, 11],
        (("tag", "a&b=c d"), ("tag", "m3:1"), ("stream", "order/1")): [1],
        (("correlation_id", "c1"), ("causation_id", "k0")): [3, 9],
        (("actor_id", "local"), ("tag", "m3:0"), ("limit", "2")): [0, 3],
        (("actor_id", "nobody"),): [],
        (("tag", "m2"),): [],
    }
    for asked, numbers in wanted.items():
        page = served.client.get("/v1/events", params=asked).json()
        assert [event["payload"]["n"] for event in page["events"]] == numbers, asked
        if "limit" in dict(asked):
            continue
        with served.client.stream("GET", "/v1/follow", params=[*asked, ("after", "0")]) as lines:
            text = next(lines.iter_text())
        data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        assert [event["payload"]["n"] for event in data] == numbers, asked


def test_a_follower_gets_new_events_by_their_tags(serve: Any) -> None:
    """TAG-01: what arrives after the follower has caught up is selected as well."""
    served = serve()
    add(served, "order/1", tagged("a:1"))
    with served.client.stream("GET", "/v1/follow?tag=a:1&tag=b:1") as following:
        parts = following.iter_text()
        next(parts)
        add(served, "order/1", tagged("a:1"), tagged("b:1", "a:1", "c:1"), tagged("b:1"))
        text = next(part for part in parts if "data: " in part)
    data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert [event["meta"]["tags"] for event in data] == [["a:1", "b:1", "c:1"]]


# --- consultations and conditions -------------------------------------------------------------------------------------


def test_a_consultation_gives_the_marker_of_the_append(everywhere: Any, fresh: str) -> None:
    """TAG-02: events and marker; the marker admits an append until something matching is added."""
    tag = f"course:{fresh}"
    asked = items(tag, types=["noted", "joined"]) + items(tag, "student:s7")
    add(everywhere, fresh, tagged(tag), tagged(tag, type="other"), tagged("student:s7", tag, type="other"))
    seen = consult(everywhere, asked)
    assert [event["seq"] for event in seen["events"]] == [1, 3]
    assert seen["events"] == [
        event for event in everywhere.client.get(f"/v1/streams/{fresh}/events").json()["events"] if event["seq"] != 2
    ]
    assert add(everywhere, fresh, tagged(tag, type="other"), unless=seen["marker"]).status_code == 201
    assert add(everywhere, fresh, tagged(tag, type="joined"), unless=seen["marker"]).status_code == 201
    refused = add(everywhere, f"{fresh}-b", tagged(tag), unless=seen["marker"])
    assert (refused.status_code, refused.json()["code"]) == (409, "condition_failed")
    assert refused.json()["values"].keys() == {"query", "found"}
    assert tag in refused.json()["values"]["query"]
    assert everywhere.service.store.stream_head(f"{fresh}-b") is None
    again = consult(everywhere, asked, after=seen["marker"]["after"])
    assert [event["seq"] for event in again["events"]] == [5]
    assert add(everywhere, fresh, tagged(tag), unless=again["marker"]).status_code == 201


def test_a_condition_holds_for_all_parts(everywhere: Any, fresh: str) -> None:
    """TAG-02: on several streams it is all or nothing, and items alone claim a free name."""
    parts = [{"stream": f"{fresh}-{letter}", "events": [tagged(f"name:{fresh}")]} for letter in "ab"]
    body = {"parts": parts, "unless": {"items": items(f"name:{fresh}")}}
    first, second = (post(everywhere, "/v1/append", body) for _ in range(2))
    assert (first.status_code, second.status_code, second.json()["code"]) == (201, 409, "condition_failed")
    assert everywhere.service.store.stream_head(f"{fresh}-a").seq == 1


def test_of_racing_claims_one_wins(everywhere: Any, fresh: str) -> None:
    """TAG-02: many clients at once claim one name; one gets it."""
    together = threading.Barrier(8)

    def claim(number: int) -> list[int]:
        with everywhere.as_("") as client:
            together.wait()
            body = {"events": [tagged(f"name:{fresh}")], "unless": {"items": items(f"name:{fresh}")}}
            path = f"/v1/streams/{fresh}-{number}/events"
            return [client.post(path, json=body).status_code for _ in range(5)]

    with ThreadPoolExecutor(8) as threads:
        statuses = sorted(status for found in threads.map(claim, range(8)) for status in found)
    assert statuses == [201] + [409] * 39


def test_a_read_page_gives_a_sound_place(everywhere: Any, fresh: str) -> None:
    """TAG-02: the cursor and `through` of a page are places that a condition may start after."""
    tag = f"a:{fresh}"
    add(everywhere, fresh, tagged(tag))
    everywhere.service.store.wait(0, timeout=5)
    page = everywhere.client.get("/v1/events", params={"tag": tag, "limit": 10_000}).json()
    while page["through"] < everywhere.service.store.head():
        page = everywhere.client.get("/v1/events", params={"tag": tag, "after": page["cursor"]}).json()
    for number, after in enumerate((page["cursor"], page["through"])):
        unless = {"items": items(tag), "after": after}
        assert add(everywhere, f"{fresh}-{number}", tagged(), unless=unless).status_code == 201
    add(everywhere, fresh, tagged(tag))
    assert add(everywhere, f"{fresh}-c", tagged(), unless=unless).status_code == 409


def test_a_key_takes_effect_once_however_often_it_is_decided(everywhere: Any, fresh: str) -> None:
    """TAG-02, CP-06: the condition is not part of the request that a key names, so deciding again is a retry."""
    path, key, asked = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}, items(f"seat:{fresh}")
    body = {"events": [tagged(f"seat:{fresh}")]}
    before = consult(everywhere, asked)["marker"]
    add(everywhere, fresh, tagged(f"seat:{fresh}"))
    refused = post(everywhere, path, body | {"unless": before}, **key)
    assert (refused.status_code, refused.json()["code"]) == (409, "condition_failed")
    decided = post(everywhere, path, body | {"unless": consult(everywhere, asked)["marker"]}, **key)
    for unless in (before, consult(everywhere, asked)["marker"], None):
        again = post(everywhere, path, body | {"unless": unless}, **key)
        assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
        assert again.content == decided.content
    gone = {"items": asked, "after": 1 << 62}  # as after a restore: no marker is refused before the record is found
    assert post(everywhere, path, body | {"unless": gone}, **key).content == decided.content
    other = post(everywhere, path, {"events": [tagged("seat:other")]}, **key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reuse")
    assert everywhere.service.store.stream_head(fresh).seq == 2


def test_a_request_without_tags_is_the_one_that_it_was() -> None:
    """CP-06: the hash of a request is in records of older versions, and a retry over an update must find it."""
    given = [
        append.PartBody(stream="order/1", events=[append.EventBody(type="noted", payload={"n": 1})], expected="none")
    ]
    assert idempotency.hash_of(given).hex() == "d8d614e82f315c82fd4bd6c9d544daf4421c83e8f25e37184ef3ba867830a21f"


def test_too_much_is_refused_as_a_whole(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-02: a consultation returns everything that matches or nothing, also if pages are short."""
    monkeypatch.setattr(conditions, "EVENTS_MAX", 20)
    served = serve(limits={"page_bytes_max": 100_000})
    add(served, "order/1", *(tagged("a:1") for _ in range(20)))
    add(served, "order/1", *(tagged("b:1", payload={"text": "x" * 9_000}) for _ in range(12)))
    assert len(consult(served, items("a:1"))["events"]) == 20
    add(served, "order/1", tagged("a:1"))
    for tag in ("a:1", "b:1"):
        refused = post(served, "/v1/consult", {"items": items(tag)})
        assert (refused.status_code, refused.json()["code"]) == (413, "consultation_too_large")
        assert "events" not in refused.json()
    assert [event["seq"] for event in consult(served, items("a:1"), after=1)["events"]] == [*range(2, 21), 33]


def test_what_was_pruned_is_said(everywhere: Any, fresh: str) -> None:
    """TAG-03: a consultation that lacks matching events is 410, unless it is asked over them; a name stays taken."""
    store, tag = everywhere.service.store, f"name:{fresh}"
    store.append(fresh, [NewEvent("noted", {}, tags=[tag]), NewEvent("noted", {}), NewEvent("noted", {})])
    upkeep.prune(store, fresh, 3)
    refused = post(everywhere, "/v1/consult", {"items": items(tag)})
    assert (refused.status_code, refused.json()["code"]) == (410, "history_pruned")
    assert consult(everywhere, items(tag), over_pruned=True)["events"] == []
    assert consult(everywhere, items(f"free:{fresh}"))["events"] == []
    assert add(everywhere, f"{fresh}-b", tagged(), unless={"items": items(tag)}).status_code == 409


# --- orgs -------------------------------------------------------------------------------------------------------------


def without_accidents(answer: Any) -> tuple[int, Any]:
    """The status and the body, without what differs between two requests that say the same."""
    body = answer.json()
    for event in body.get("events", ()):
        del event["id"], event["time"], event["link"], event["meta"]["request_id"]
    body.pop("link", None)
    if "marker" in body:
        body["marker"]["after"] = body["marker"]["after"].partition(".")[0]
    return answer.status_code, body


@pytest.fixture(params=["acme", "reader"])
def reader(request: pytest.FixtureRequest) -> str:
    """The token of a caller that is bound to an org and may read."""
    return str(request.param)


@pytest.mark.parametrize("theirs", ["bolt", None])
def test_whether_others_have_a_match_makes_no_difference(serve: Any, book: Any, theirs: str | None) -> None:
    """TAG-04: with or without matching events of others: the same status and body of every answer."""
    answers = []
    for tag in ("name:ada", "name:bob"):
        served = serve(tokens=book(**TOKENS))
        store = served.service.store
        meta = None if theirs is None else {"org": theirs}
        store.append("order/o", [NewEvent("noted", {}, meta=meta, tags=[tag, "x:1"]) for _ in range(3)])
        add(served, "order/a", tagged("x:1"), token="acme")
        unless = {"items": items("name:ada") + items("x:1", "name:ada")}
        marker = consult(served, unless["items"], token="acme")["marker"]
        bolt = {"events": [tagged(tag)]}
        asked = [
            ("/v1/consult", unless, "reader"),
            ("/v1/consult", unless | {"after": 3}, "acme"),
            ("/v1/streams/order/b/events", {"events": [tagged("name:ada")], "unless": unless}, "acme"),
            ("/v1/streams/order/b/events", {"events": [tagged("name:ada")], "unless": unless}, "acme"),
            ("/v1/append", {"parts": [{"stream": "order/c"} | bolt], "unless": marker}, "acme"),
            ("/v1/append", {"parts": [{"stream": "order/o"} | bolt], "unless": unless}, "acme"),
            ("/v1/consult", unless, "acme"),
        ]
        answers.append([without_accidents(post(served, path, body, token=token)) for path, body, token in asked])
    assert answers[0] == answers[1]
    assert [status for status, _ in answers[0]] == [200, 200, 201, 409, 409, 404, 200]
    assert "bolt" not in json.dumps(answers)


def test_a_refusal_names_no_position(guarded: Any) -> None:
    """TAG-04: a caller bound to an org learns that its condition failed, and repeats its own query."""
    add(guarded, "order/a", tagged("name:ada"), token="acme")
    refused = add(guarded, "order/b", tagged(), token="acme", unless={"items": items("name:ada")})
    assert refused.status_code == 409
    assert refused.json()["values"] == {"query": "match(tags=['name:ada'])", "found": "an event of the org"}
    assert "position" not in refused.json()["detail"]
    told = add(guarded, "order/b", tagged(), token="all", unless={"items": items("name:ada")})
    assert "position 1" in told.json()["detail"]


def test_an_item_without_tags_is_refused_for_a_caller_of_one_org(guarded: Any) -> None:
    """TAG-04: such a condition would make every append wait. The item is named, and nothing is written."""
    for asked in (items(), items(types=["noted"]), items("a:1") + items(types=["noted"])):
        refused = [
            add(guarded, "order/a", tagged("a:1"), token="acme", unless={"items": asked}),
            post(
                guarded,
                "/v1/append",
                {"parts": [{"stream": "order/a", "events": [tagged()]}]} | {"unless": {"items": asked}},
                token="acme",
            ),
            post(guarded, "/v1/consult", {"items": asked}, token="reader"),
        ]
        assert {(each.status_code, each.json()["code"]) for each in refused} == {(403, "untagged_item")}
        assert [each.json()["values"] for each in refused] == [{"number": len(asked) - 1}] * 3
        assert (
            add(
                guarded,
                f"order/{len(asked)}",
                tagged(),
                token="all",
                unless={"items": asked, "after": guarded.service.store.head()},
            ).status_code
            == 201
        )
    assert guarded.service.store.stream_head("order/a") is None


def test_the_scope_of_a_condition_is_the_callers(guarded: Any) -> None:
    """TAG-04: two orgs take one name each for themselves; a caller of all orgs sees both."""
    claim = {"items": items("name:ada")}
    for token in ("acme", "bolt"):
        assert add(guarded, f"order/{token}", tagged("name:ada"), token=token, unless=claim).status_code == 201
        assert add(guarded, f"order/{token}", tagged("name:ada"), token=token, unless=claim).status_code == 409
    assert add(guarded, "order/all", tagged("name:ada"), token="all", unless=claim).status_code == 409
    seen = {
        token: [event["meta"]["org"] for event in consult(guarded, items("name:ada"), token=token)["events"]]
        for token in TOKENS
    }
    assert seen == {"acme": ["acme"], "bolt": ["bolt"], "all": ["acme", "bolt"], "reader": ["acme"]}


def test_a_consultation_shows_no_infrastructure(serve: Any, book: Any, reader: str) -> None:
    """TAG-04, CP-10: events of infrastructure that name the org are not shown to its callers."""
    catalog = Catalog()
    catalog.declare_kind("host", tenant=False)
    served = serve(tallystick.open("memory:", catalog=catalog), tokens=book(**TOKENS))
    for stream in ("host/1", "order/1"):
        served.service.store.append(stream, NewEvent("noted", {}, meta={"org": "acme"}, tags=["a:1"]))
    assert [event["stream"] for event in consult(served, items("a:1"), token=reader)["events"]] == ["order/1"]
    assert [event["stream"] for event in consult(served, items("a:1"), token="all")["events"]] == ["host/1", "order/1"]


def test_a_tenant_consults_and_does_not_append(guarded: Any) -> None:
    """TAG-04: a consultation changes nothing, so a caller that reads may make one."""
    assert consult(guarded, items("a:1"), token="reader")["events"] == []
    assert add(guarded, "order/a", tagged(), token="reader", unless={"items": items("a:1")}).status_code == 403
    assert post(guarded, "/v1/consult", {"items": items("a:1")}).status_code == 401


def test_a_marker_is_looked_up_before_the_append_waits_for_its_commit(guarded: Any) -> None:
    """TAG-04, SAFE-09: whoever invents markers waits for them alone, because the thread that commits looks up none."""
    store = guarded.service.store
    add(guarded, "order/a", tagged("a:1"), token="acme")
    marker = consult(guarded, items("a:1"), token="acme")["marker"]
    asking: list[str] = []
    log, store.conditions._log = store.log, Watched(store.log, asking)
    store.conditions._known.clear()
    invented = marker | {"after": "9" + marker["after"]}
    for unless, status in ((marker, 201), (marker | {"after": 1}, 409), (invented, 409)):
        done = add(guarded, "order/a", tagged("a:1"), token="acme", unless=unless)
        assert done.status_code == status, done.text
    store.conditions._log = log
    assert asking
    assert not [name for name in asking if "writer" in name]


class Watched:
    """A log that notes which threads ask it something."""

    def __init__(self, log: Any, asking: list[str]) -> None:
        self._log, self._asking = log, asking

    def __getattr__(self, name: str) -> Any:
        if name in ("head", "wait", "read"):
            self._asking.append(threading.current_thread().name)
        return getattr(self._log, name)
