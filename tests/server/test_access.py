"""Who may do what: one authorisation a route, tenants within their org, one answer for absent and not yours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

from tallystick import Catalog, NewEvent, Store, open, state
from tallystick.server.access import MAY, Need
from tallystick.server.api import streams
from tallystick.server.app import build
from tallystick.server.http.route import Route
from tallystick.server.merge import merge
from tallystick.server.service import Service
from tallystick.server.settings import Settings

TOKENS = {
    "tenant": ("tenant", "acme"),
    "writer": ("writer", "acme"),
    "service": ("writer", None),
    "admin": ("admin", None),
    "peer": ("peer", None),
}


def all_routes() -> list[Any]:
    """The routes of the app as it is built."""
    with open("memory:") as store:
        return list(build(Service(store, Settings(url=""))).routes)


def test_every_route_names_exactly_one_need() -> None:
    """CP-10: the app has no other kind of route, so every request is authorised for the need of its route."""
    for route in all_routes():
        assert isinstance(route, Route), route


def test_a_matched_route_is_named_in_the_scope() -> None:
    """CP-14: metrics, the log and idempotency keys use the route of a request, with every version of the router."""
    for route in all_routes():
        address = re.sub(r"{[^}]*}", "1", route.path)
        for method in (route.method, "TRACE"):
            assert route.matches({"method": method, "path": address})[1]["route"] is route
        assert isinstance(route.need, Need), route.path


def test_no_handler_is_called_before_its_caller_is_authorised(serve: Any, book: Any) -> None:
    """CP-10: a caller who may not do what a route needs gets 401 or 403 from every route that is not open."""
    served = serve(tokens=book(peer=("peer", None)))
    with served.as_("peer") as client:
        for route in all_routes():
            if route.need in (Need.OPEN, Need.PEER) or route.path.startswith("/console"):
                continue
            path = route.path.replace("{", "").replace("}", "")
            assert client.request(route.method, path).status_code == 403, route.path
            assert served.client.request(route.method, path).status_code == 401, route.path


def test_only_public_routes_are_open() -> None:
    """What a caller without a token may see is this list."""
    public = {route.path for route in all_routes() if route.need is Need.OPEN}
    assert public - SIGNED_BY_PEERS <= PUBLIC


PUBLIC = {"/openapi.json", "/health", "/ready", "/metrics", "/"}
PUBLIC |= {"/console/login", "/console/logout", "/console/static/{name}"}
SIGNED_BY_PEERS = {f"/sync/v1/{name}" for name in ("heads", "events", "fetch", "reconcile", "snapshot")}


@pytest.fixture(scope="module")
def shop() -> Iterator[Store]:
    """A store with streams of two orgs, of none, of the infrastructure, and control facts of an org."""
    catalog = Catalog()
    catalog.declare_kind("host", tenant=False)
    with open("memory:", catalog=catalog) as store:
        for org in ("acme", "other"):
            store.append(f"order/{org}", [NewEvent("noted", {"of": org, "n": n}, meta={"org": org}) for n in range(3)])
            store.append(f"host/{org}", NewEvent("noted", {"of": org}, meta={"org": org}))
            store.append(f"cluster/{org}", NewEvent("noted", {"of": org}, meta={"org": org}))
        store.append("order/nobody", NewEvent("noted", {"of": "nobody"}))
        yield store


@pytest.fixture(scope="module")
def served(listen: Any, book: Any, shop: Store) -> Iterator[Any]:
    """That store, served to holders of tokens."""
    running = listen(shop, tokens=book(**TOKENS), infrastructure=("cluster",))
    yield running
    running.stop()


EXAMPLES = {
    "/v1/events": ("?limit=1000", "?org=acme", "?stream=order/{org}", "?kind=host", "?kind=cluster", "?type=noted"),
    "/v1/events/{id}": ("{order}", "{host}"),
    "/v1/follow": ("?after=0", "?after=0&stream=order/{org}"),
    "/v1/streams": ("", "?kind=order", "?kind=host", "?limit=1"),
    "/v1/streams/{kind}/{name}": ("order/{org}", "host/{org}", "cluster/{org}"),
    "/v1/streams/{kind}/{name}/events": ("order/{org}/events", "host/{org}/events"),
    "/v1/streams/{kind}/{name}/state": ("order/{org}/state", "cluster/{org}/state"),
    "/v1/state": ("?reducer=none",),
    "/v1/schemas": ("",),
    "/v1/store": ("",),
    "/v1/wait": ("?projection=none&position=0",),
    "/v1/runs": ("",),
    "/v1/runs/{run}": ("of-{org}",),
    "/v1/telemetry": ("", "?run=of-{org}"),
}
"""How to ask each route that tenants may read from for something of one org. A new route must be added here."""

ORGS = ("acme", "other", "nobody")
FOREIGN = re.compile(r'"of":"(other|nobody)"|(host|cluster)/|"org":"other"')


def asked(path: str, example: str, store: Store, org: str) -> str:
    """The path of a request about an org."""
    ids = {kind: _first_id(store, f"{kind}/{org}") for kind in ("order", "host")}
    place = path if example[:1] in ("", "?") else path.partition("{")[0]
    return place + example.format(org=org, **ids)


def _first_id(store: Store, stream: str) -> str:
    found = store.read_stream(stream)
    return str(found[0].uuid) if found else "01890000-0000-7000-8000-000000000000"


def routes_for_tenants() -> list[str]:
    """The paths that a tenant's token opens, beside those that are open to all."""
    return [route.path for route in all_routes() if route.need in MAY["tenant"] - {Need.OPEN} and route.method == "GET"]


def test_every_route_for_tenants_is_in_the_matrix() -> None:
    """A new read route is asked for other orgs below, or this fails."""
    console = {path for path in routes_for_tenants() if path.startswith("/console")}
    assert set(routes_for_tenants()) - console == set(EXAMPLES)


def text_of(served: Any, token: str, path: str) -> tuple[int, str]:
    """The status and the whole answer; of a stream, as far as it is there already."""
    with served.as_(token) as client, client.stream("GET", path) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, next(answer.iter_text())
        return answer.status_code, answer.read().decode()


@pytest.mark.parametrize("token", ["tenant", "writer"])
def test_a_caller_bound_to_an_org_reads_only_that_org(served: Any, shop: Store, token: str) -> None:
    """CP-10: every read route × own, other and missing org returns nothing of others, nobody or the infrastructure."""
    for path, examples in EXAMPLES.items():
        for example, org in product(examples, ORGS):
            status, text = text_of(served, token, asked(path, example, shop, org))
            where = f"{path} {example} {org}: {status} {text[:300]}"
            assert status in (200, 404), where
            assert not FOREIGN.search(text), where
            if "{" in path:  # it is about one thing: an order of the own org, or nothing
                assert status == (200 if org == "acme" and "order" in example else 404), where


@pytest.mark.parametrize("path", ["/v1/events?org=other", "/v1/streams?org=other", "/v1/follow?after=0&org=other"])
def test_to_ask_for_another_org_is_to_ask_for_nothing(served: Any, path: str) -> None:
    """CP-10: an org that exists and one that does not get the same response."""
    there = text_of(served, "tenant", path)
    absent = text_of(served, "tenant", path.replace("other", "absent"))
    assert there == absent
    assert there[0] == 404


@pytest.mark.parametrize(
    ("hidden", "absent"),
    [
        ("/v1/streams/order/other", "/v1/streams/order/absent"),
        ("/v1/streams/order/other/events", "/v1/streams/order/absent/events"),
        ("/v1/streams/order/other/state", "/v1/streams/order/absent/state"),
        ("/v1/streams/host/acme", "/v1/streams/host/absent"),
        ("/v1/streams/tally.store/settings", "/v1/streams/tally.store/absent"),
    ],
)
def test_absent_and_not_yours_are_the_same_to_the_byte(served: Any, hidden: str, absent: str) -> None:
    """CP-10: a tenant cannot find out what others have."""
    with served.as_("tenant") as client:
        one, other = client.get(hidden), client.get(absent)
    assert one.status_code == 404
    assert one.content == other.content
    own = {"date", "x-request-id"}
    assert {k: v for k, v in one.headers.items() if k not in own} == {
        k: v for k, v in other.headers.items() if k not in own
    }


def test_what_was_pruned_of_others_is_not_reported(serve: Any, book: Any) -> None:
    """CP-10: another org's pruned stream looks like one that does not exist; the caller's own is 410 as usual."""
    store = open("memory:")
    for org in ("other", "acme"):
        store.append(f"order/{org}", [NewEvent("noted", {"n": n}, meta={"org": org}) for n in range(4)])
    served = serve(store, tokens=book(**TOKENS))
    state.prune(store, "order/other", before=3, reducers=[merge], snapshot=True, accept=True)
    for path in ("/v1/events?stream=", "/v1/follow?after=0&stream="):
        hidden, absent = (text_of(served, "tenant", f"{path}order/{name}") for name in ("other", "absent"))
        assert hidden == absent
        assert hidden[0] == 200
    state.prune(store, "order/acme", before=3, reducers=[merge], snapshot=True, accept=True)
    status, text = text_of(served, "tenant", "/v1/events?stream=order/other&stream=order/acme")
    assert (status, "order/other" in text) == (410, False)
    assert text_of(served, "service", "/v1/events?stream=order/other")[0] == 410


def test_a_cursor_names_no_stream_of_others(serve: Any, book: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-10: if the scan stops among the streams of another org, `next` continues and does not say where it is."""
    monkeypatch.setattr(streams, "STREAMS_SCANNED_MAX", 2)
    store = open("memory:")
    for name, org in (("a", "other"), ("b", "other"), ("c", "other"), ("d", "acme")):
        store.append(f"order/{name}", NewEvent("noted", {}, meta={"org": org}))
    served = serve(store, tokens=book(**TOKENS))
    with served.as_("tenant") as client:
        page = client.get("/v1/streams").json()
        assert (page["streams"], "order/" in page["next"]) == ([], False)
        rest = client.get("/v1/streams", params={"after": page["next"]}).json()
        assert [stream["stream"] for stream in rest["streams"]] == ["order/d"]
        assert client.get("/v1/streams", params={"after": "~gone"}).status_code == 422
    with served.as_("service") as client:
        assert client.get("/v1/streams").json()["next"] == "order/b"


def test_a_refused_caller_learns_nothing_of_the_store(served: Any, shop: Store) -> None:
    """CP-10: pages of refusals have the frame of the console without what it shows an operator: id, engine, head."""
    with served.as_("") as client:
        refused = [
            client.get("/console/static/none"),
            client.post("/console/login"),
            client.post("/console/logout"),
            client.get("/console", headers={"cookie": "tally_console=tenant"}),
        ]
        let_in = client.get("/console/none", headers={"cookie": "tally_console=admin"})
    assert [answer.status_code for answer in refused] == [404, 403, 403, 403]
    store = shop.log.store_id.hex()
    assert [store in answer.text for answer in refused] == [False] * 4
    assert (let_in.status_code, store in let_in.text) == (404, True)


def test_a_tenant_never_appends(served: Any, shop: Store) -> None:
    """CP-10: only trusted services append. A tenant may not, not even to its own org, on either route."""
    before = shop.head()
    one = {"type": "noted", "payload": {}}
    with served.as_("tenant") as client:
        to_one = client.post("/v1/streams/order/acme/events", json={"events": [one]})
        to_many = client.post("/v1/append", json={"parts": [{"stream": "order/acme", "events": [one]}]})
    assert {(done.status_code, done.json()["code"]) for done in (to_one, to_many)} == {(403, "not_allowed")}
    assert shop.head() == before


@pytest.mark.parametrize("expected", ["none", "any", 3, 99])
def test_a_writer_of_one_org_learns_nothing_of_others_streams(served: Any, shop: Store, expected: Any) -> None:
    """CP-10: whatever it expects of another org's stream, it gets a 404."""
    before = shop.head()
    refused = served.append("order/other", {}, token="writer", expected=expected)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    hidden = served.append("host/acme", {}, token="writer", expected=expected)
    assert (hidden.status_code, hidden.content) == (404, refused.content)
    assert shop.head() == before


@pytest.mark.parametrize("expected", ["any", 1])
def test_a_writer_of_one_org_cannot_take_over_a_stream_without_an_org(served: Any, shop: Store, expected: Any) -> None:
    """CP-10: a stream without an org does not exist for it. By appending, its org could read older events."""
    refused = served.append("order/nobody", {"of": "acme"}, token="writer", expected=expected)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert text_of(served, "tenant", "/v1/streams/order/nobody/events")[0] == 404
    assert shop.stream_head("order/nobody").org is None


def test_two_writers_of_one_org_begin_a_stream_at_once(served: Any, shop: Store) -> None:
    """CP-10: a caller without an expectation gets no conflict, and several parts may go to one new stream."""
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda n: served.append("order/begun", {"n": n}, token="writer"), range(8)))
    assert {answer.status_code for answer in done} == {201}
    assert (shop.stream_head("order/begun").seq, shop.stream_head("order/begun").org) == (8, "acme")
    part = {"stream": "order/twice", "events": [{"type": "noted", "payload": {}}]}
    with served.as_("writer") as client:
        assert client.post("/v1/append", json={"parts": [part, part]}).status_code == 201


def test_an_id_of_another_org_tells_nothing(served: Any, shop: Store) -> None:
    """CP-10: an id that is taken is refused without saying by whom."""
    taken = str(shop.read_stream("order/other")[0].uuid)
    event = {"type": "noted", "payload": {}, "id": taken}
    with served.as_("writer") as client:
        refused = client.post("/v1/streams/order/acme/events", json={"events": [event]})
    assert refused.status_code == 409
    assert (refused.json()["code"], refused.json()["values"]) == ("id_unusable", {"id": taken})
    assert "order/other" not in refused.text


def test_kinds_of_tokens_may_what_they_may(served: Any) -> None:
    """A service reads all orgs, an operator sees the audit, and a peer sees neither."""
    wanted = {
        "tenant": (200, 403),
        "writer": (200, 403),
        "service": (200, 403),
        "admin": (200, 200),
        "peer": (403, 403),
    }
    for token, statuses in wanted.items():
        with served.as_(token) as client:
            assert tuple(client.get(path).status_code for path in ("/v1/events", "/v1/audit")) == statuses, token
    with served.as_("service") as client:
        assert '"of":"other"' in client.get("/v1/events").text
        assert client.get("/v1/streams/host/acme").status_code == 200


def test_without_a_token_one_is_asked_for(served: Any) -> None:
    """Every route but the public ones answers 401, with advice."""
    refused = served.client.get("/v1/events")
    assert (refused.status_code, refused.json()["code"]) == (401, "not_authenticated")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert served.append("order/acme", {}).status_code == 401
    assert served.client.get("/openapi.json").status_code == 200
    assert served.client.get("/v1/events", headers={"cookie": "token=admin"}).status_code == 401


def test_a_token_that_was_taken_back_is_refused_at_once(serve: Any, book: Any) -> None:
    """Revoking takes effect with the next request of the same connection."""
    tokens = book(tenant=("tenant", "acme"), admin=("admin", None))
    with serve(tokens=tokens).as_("tenant") as client:
        assert client.get("/v1/events").status_code == 200
        tokens.revoke("tenant")
        assert client.get("/v1/events").status_code == 401


def test_a_service_that_requires_tokens_refuses_requests_without_one(serve: Any) -> None:
    """--require-token also applies while the store has no token."""
    assert serve(require_token=True).client.get("/v1/events").status_code == 401
