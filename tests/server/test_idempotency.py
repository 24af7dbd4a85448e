"""The same request under the same key takes effect once, on every engine that keeps commands."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

import tallystick
from tallystick import NewEvent, state
from tallystick.projections import Live, Projection
from tallystick.server.access import Need
from tallystick.server.merge import merge
from tallystick.server.tokens import Tokens

BODY = {"events": [{"type": "noted", "payload": {"n": 1}}, {"type": "noted", "payload": {"n": 2}}]}
KEY = {"idempotency-key": "k-1"}
JSON = b"application/json"
PATH = "/v1/streams/order/1/events"


def test_a_repeated_request_gets_the_stored_answer(everywhere: Any, fresh: str) -> None:
    """CP-06: same key and body: the same bytes again, marked as a replay, and nothing more is recorded."""
    path, key = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    first = everywhere.client.post(path, json=BODY, headers=key)
    again = everywhere.client.post(path, json=BODY, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert everywhere.service.store.stream_head(fresh).seq == 2


def test_another_request_under_the_same_key_is_refused(everywhere: Any, fresh: str) -> None:
    """CP-06: another body or another stream is 409 `idempotency_key_reuse`, and nothing is recorded."""
    path, key = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    everywhere.client.post(path, json=BODY, headers=key)
    other_body = everywhere.client.post(path, json={"events": BODY["events"][:1]}, headers=key)
    other_path = everywhere.client.post(f"/v1/streams/{fresh}-b/events", json=BODY, headers=key)
    for refused in (other_body, other_path):
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_key_reuse")
    assert everywhere.service.store.stream_head(fresh).seq == 2
    assert everywhere.service.store.stream_head(f"{fresh}-b") is None


def test_of_racing_requests_one_takes_effect(everywhere: Any, fresh: str) -> None:
    """CP-06: many at once with one key all get the same response, and it happened once."""
    together = threading.Barrier(8)

    def send(_: int) -> bytes:
        with everywhere.as_("") as client:
            together.wait()
            body, key = BODY | {"expected": "none"}, {"idempotency-key": fresh}
            answer = client.post(f"/v1/streams/{fresh}/events", json=body, headers=key)
            assert answer.status_code == 201, answer.text
            return bytes(answer.content)

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(send, range(8)))
    assert len(answers) == 1
    assert everywhere.service.store.stream_head(fresh).seq == 2


def test_a_key_belongs_to_one_actor(serve: Any, book: Any) -> None:
    """Two services that use the same key do not collide."""
    served = serve(tokens=book(a=("writer", "acme"), b=("writer", "acme"), c=("writer", "other")))
    for token, stream in (("a", "order/1"), ("b", "order/2"), ("c", "order/3")):
        assert served.append(stream, {}, token=token, headers=KEY).status_code == 201
    assert served.service.store.head() == 3


def test_a_refused_request_may_be_sent_again(serve: Any) -> None:
    """A conflict stores nothing under the key."""
    served = serve()
    refused = served.append("order/1", {"n": 1}, expected=1, headers=KEY)
    assert refused.status_code == 409
    served.append("order/1", {"n": 0})
    assert served.append("order/1", {"n": 1}, expected=1, headers=KEY).status_code == 201
    again = served.append("order/1", {"n": 1}, expected=1, headers=KEY)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")


def test_an_invalid_key_is_refused(serve: Any) -> None:
    """One header with printable text of at most 1,000 characters."""
    served = serve()
    for keys in (["a", "b"], [""], ["x" * 1001], ["a\tb"], ["\udcff"]):
        headers = [(b"idempotency-key", key.encode("utf-8", "surrogateescape")) for key in keys]
        refused = served.client.post(PATH, content=json.dumps(BODY), headers=[*headers, (b"content-type", JSON)])
        assert refused.status_code == 422, (keys, refused.text)
    assert served.service.store.head() == 0


def test_an_engine_without_commands_says_so(serve: Any, tmp_path: Any) -> None:
    """A store of runs refuses a key by name, and appends without one."""
    served = serve(f"ndjson:{tmp_path}/runs", profile="run")
    refused = served.append("run/a", {}, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (501, "unsupported_capability")
    assert served.append("run/a", {}).status_code == 201


def test_white_space_and_the_order_of_keys_are_the_same_request(everywhere: Any, fresh: str) -> None:
    """CP-06: requests are compared by their canonical form, not by their bytes."""
    path, headers = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh, "content-type": "application/json"}
    texts = (
        '{"events":[{"type":"noted","payload":{"a":1,"b":[2]}}],"expected":"none"}',
        '{ "expected": "none", "events": [ {"payload": {"b": [2], "a": 1},\n "type": "noted", "meta": null} ] }',
    )
    first, again = (everywhere.client.post(path, content=text, headers=headers) for text in texts)
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert first.content == again.content
    assert everywhere.service.store.stream_head(fresh).seq == 1


def test_a_number_of_another_kind_is_another_request(everywhere: Any, fresh: str) -> None:
    """CP-06: 1 and 1.0 are different JSON here, as they are in an event."""
    path, headers = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    for number, status in ((1, 201), (1.0, 409), (True, 409)):
        body = {"events": [{"type": "noted", "payload": {"n": number}}]}
        assert everywhere.client.post(path, json=body, headers=headers).status_code == status


def test_the_same_answer_comes_after_a_prune(everywhere: Any, fresh: str) -> None:
    """CP-06: the response is kept with the command, also after its events were pruned."""
    path, key = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    one = everywhere.client.post(path, json={"events": BODY["events"][:1]}, headers={"idempotency-key": f"{fresh}-1"})
    two = everywhere.client.post(path, json=BODY, headers=key)
    parts = {"parts": [{"stream": fresh} | BODY, {"stream": f"{fresh}-b"} | BODY]}
    three = everywhere.client.post("/v1/append", json=parts, headers=key)
    everywhere.append(fresh, {"n": 6})
    store = everywhere.service.store
    state.prune(store, fresh, before=6, reducers=[merge], snapshot=True, accept=True)
    assert store.cut(fresh).through == 5
    again = [
        everywhere.client.post(path, json={"events": BODY["events"][:1]}, headers={"idempotency-key": f"{fresh}-1"}),
        everywhere.client.post(path, json=BODY, headers=key),
        everywhere.client.post("/v1/append", json=parts, headers=key),
    ]
    for before, after in zip((one, two, three), again, strict=True):
        assert after.headers["idempotent-replayed"] == "true"
        assert (after.status_code, after.content) == (before.status_code, before.content)


def test_a_key_belongs_to_the_org_of_the_data(serve: Any, book: Any) -> None:
    """CP-06: a service that writes for many orgs may use one key in each of them."""
    served = serve(tokens=book(all=("writer", None)))
    for org in ("acme", "beta"):
        for status in (201, 201):
            done = served.append(f"order/{org}", {"n": 1}, token="all", headers=KEY, meta={"org": org})
            assert done.status_code == status
    assert served.service.store.head() == 2
    other = served.append("order/acme", {"n": 2}, token="all", headers=KEY, meta={"org": "acme"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reuse")


def test_a_key_belongs_to_one_endpoint(serve: Any) -> None:
    """CP-06: the two routes for appends do not collide under one key."""
    served = serve()
    first = served.client.post(PATH, json=BODY, headers=KEY)
    second = served.client.post("/v1/append", json={"parts": [{"stream": "order/1"} | BODY]}, headers=KEY)
    assert (first.status_code, second.status_code) == (201, 201)
    assert "idempotent-replayed" not in second.headers


def test_records_of_an_older_version_are_read_back(serve: Any) -> None:
    """A record without positions is answered from the events."""
    served = serve()
    first = served.client.post(PATH, json=BODY, headers=KEY)
    records = served.service.store.log.commands.records
    for key, record in list(records.items()):
        records[key] = msgspec.structs.replace(record, places=())
    assert served.client.post(PATH, json=BODY, headers=KEY).content == first.content


WRITES = {
    "/v1/streams/{kind}/{name}/events": ("/v1/streams/order/1/events", BODY),
    "/v1/append": ("/v1/append", {"parts": [{"stream": "order/2"} | BODY]}),
    "/v1/tokens": ("/v1/tokens", {"kind": "peer", "actor": "p"}),
    "/v1/tokens/{id}/revoke": ("/v1/tokens/{token}/revoke", {"reason": "lost"}),
    "/v1/snapshots": ("/v1/snapshots", {"stream": "order/1", "reducer": "merge"}),
    "/v1/snapshots/verify": ("/v1/snapshots/verify", None),
    "/v1/snapshots/{id}/protect": ("/v1/snapshots/{snapshot}/protect", {"protected": True}),
    "/v1/integrity/verify": ("/v1/integrity/verify", None),
    "/v1/retention": ("/v1/retention", {"dry_run": True}),
    "/v1/projections/{name}/rebuild": ("/v1/projections/Counts/rebuild", None),
    "/v1/projections/{name}/drop": ("/v1/projections/Old/drop", {"reason": "nobody runs it"}),
    "/v1/consumers/drop": ("/v1/consumers/drop", {"name": "old"}),
    "/v1/consumers/reset": ("/v1/consumers/reset", {"name": "mailer", "position": 0}),
    "/v1/profile": ("/v1/profile", {"seconds": 0.01}),
}


class Counts(Projection):
    """Counts the events of a stream."""

    types = ("noted",)

    def initial(self) -> Any:
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        return {"n": state["n"] + 1}


class Old(Counts):
    """Of another name."""


def test_every_write_route_honours_the_key(serve: Any, tmp_path: Any) -> None:
    """CP-06: every route that changes something gives the same request with the same key the same bytes."""
    store = tallystick.open(f"sqlite:{tmp_path}/log.db")
    book = Tokens(store)
    secret, other = book.issue("admin", actor="root").secret, book.issue("peer", actor="old").token.id
    store.append("order/1", NewEvent("noted", {"n": 0}))
    snapshot = state.make(store, merge, "order/1").id.hex()
    Live(store, Old()).catch_up()
    for consumer in ("old", "mailer"):
        store.save_checkpoint(consumer, 1)
    served = serve(store, tokens=book, projections=[Counts()])
    writes = {route.path for route in served.app.routes if route.method != "GET" and route.need is not Need.READ}
    assert {path for path in writes if path.startswith("/v1/")} == WRITES.keys()
    with served.as_(secret) as client:
        for path, (place, body) in WRITES.items():
            shown = client.get("/openapi.json").json()["paths"][path]["post"]["parameters"]
            assert "Idempotency-Key" in [item["name"] for item in shown], path
            url = place.replace("{token}", other).replace("{snapshot}", snapshot)
            first, again = (client.post(url, json=body, headers={"idempotency-key": path}) for _ in "12")
            assert first.status_code in (200, 201, 202), (path, first.text)
            assert "idempotent-replayed" not in first.headers
            assert again.headers.get("idempotent-replayed") == "true", (path, again.text)
            if path == "/v1/tokens":  # the answer holds a secret
                assert again.headers.get("cache-control") == first.headers.get("cache-control") == "no-store"
            assert (again.status_code, again.content) == (first.status_code, first.content), path
            assert again.headers.get("location") == first.headers.get("location"), path
            if body:
                reused = client.post(url, json=body | {"more": 1}, headers={"idempotency-key": path})
                assert reused.status_code in (409, 422), (path, reused.text)


def test_a_token_is_issued_once_and_its_secret_is_not_stored(serve: Any, tmp_path: Any) -> None:
    """CP-06, SEC-01: a retry gets the same response; after a restart it names the same token, without the secret."""
    url, asked = f"sqlite:{tmp_path}/log.db", {"kind": "tenant", "actor": "t", "org": "acme"}
    with tallystick.open(url) as store:
        admin = Tokens(store).issue("admin", actor="root").secret
    first: dict[str, Any] = {}
    for restarted in (False, True):
        store = tallystick.open(url)
        served = serve(store, tokens=Tokens(store))
        with served.as_(admin) as client:
            with ThreadPoolExecutor(4) as threads:
                posts = threads.map(lambda _: client.post("/v1/tokens", json=asked, headers=KEY), range(4))
                answers = [(answer.status_code, answer.json()) for answer in posts]
            assert [status for status, _ in answers] == [201] * 4
            assert len({json.dumps(body) for _, body in answers}) == 1
            if restarted:
                assert answers[0][1] == first | {"token": None}
            first = answers[0][1]
            assert len(client.get("/v1/tokens").json()["tokens"]) == 2
        served.stop()
        if not restarted:
            stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
            assert first["token"].encode() not in stored
            assert first["id"].encode() in stored
