"""Reading over HTTP: pages by cursor, filters, one event, streams, states, and waiting for a projection."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, state
from tallystick.projections import Projection
from tallystick.server.api import log_page, runs
from tallystick.server.merge import merge
from tallystick.testing.builders import text


class Seen(Projection):
    """How often each stream was written to."""

    name = "seen"
    version = 1
    types = ("noted",)
    key = "stream"

    def initial(self) -> int:
        """Never."""
        return 0

    def apply(self, state: int, event: tallystick.Event) -> int:
        """Once more."""
        return state + 1


def walk(client: Any, path: str, **params: Any) -> list[dict[str, Any]]:
    """Every event of a listing, page after page; each page must get further."""
    found: list[dict[str, Any]] = []
    after = params.pop("after", 0)
    while True:
        page = client.get(path, params=params | {"after": after}).json()
        found += page["events"]
        if page["through"] <= after:
            return found
        after = page["through"]


def test_pages_give_every_event_once_in_order(everywhere: Any, fresh: str) -> None:
    """CP-09: following `through` gives all events ascending, whatever the limit and the filter."""
    store = everywhere.service.store
    start = store.head()
    for number in range(30):
        meta = {"org": "acme", "app": "shop" if number % 3 else "bank", "env": "test"}
        store.append(f"{fresh}-{number % 4}", NewEvent(f"t{number % 2}", {"n": number}, meta=meta))
    everything = walk(everywhere.client, "/v1/events", after=start, limit=7)
    assert [event["payload"]["n"] for event in everything] == list(range(30))
    assert [event["position"] for event in everything] == sorted(event["position"] for event in everything)
    banked = walk(everywhere.client, "/v1/events", after=start, limit=2, app="bank", org="acme", type="t0")
    assert [event["payload"]["n"] for event in banked] == list(range(0, 30, 6))
    one = walk(everywhere.client, "/v1/events", after=start, stream=f"{fresh}-1", limit=3)
    assert [event["payload"]["n"] for event in one] == list(range(1, 30, 4))
    assert walk(everywhere.client, "/v1/events", after=start, org="other") == []


def test_an_audit_by_org_and_time_keeps_the_order(everywhere: Any, fresh: str) -> None:
    """CP-15: a window of time filters; the order stays that of positions, although times go back and forth."""
    store = everywhere.service.store
    start = store.head()
    for time in (5, 3, 9, 4, 7):
        store.append(fresh, NewEvent("noted", {"t": time}, meta={"org": "acme"}, time=time))
    found = walk(everywhere.client, "/v1/events", after=start, org="acme", time_from=4, time_until=9)
    assert [event["payload"]["t"] for event in found] == [5, 4, 7]


def test_an_event_is_given_as_it_is_exported(everywhere: Any, fresh: str) -> None:
    """Every field of the envelope is there, with payload and meta verbatim, by page and by id."""
    from tallystick.event.line import line

    store = everywhere.service.store
    store.append(fresh, NewEvent("noted", {"z": 1.0, "a": -0.0, "ü": "\u2028"}))
    (event,) = store.read_stream(fresh)
    by_id = everywhere.client.get(f"/v1/events/{event.uuid}")
    page = everywhere.client.get(f"/v1/streams/{fresh}/events")
    assert by_id.text == line(event)
    assert page.text == f'{{"events":[{line(event)}],"through":1}}'


def test_streams_are_listed_by_name(everywhere: Any, fresh: str) -> None:
    """Streams are listed by cursor, by kind and by org, each with its end."""
    kind = fresh.replace("/", "-")
    store = everywhere.service.store
    for number in range(5):
        org = "acme" if number % 2 else "other"
        store.append(f"{kind}/{number}", NewEvent("noted", {}, meta={"org": org}))
    client, names, after = everywhere.client, [], ""
    while True:
        page = client.get("/v1/streams", params={"kind": kind, "limit": 2, "after": after}).json()
        names += [item["stream"] for item in page["streams"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert names == [f"{kind}/{number}" for number in range(5)]
    own = client.get("/v1/streams", params={"kind": kind, "org": "acme"}).json()["streams"]
    assert [(item["stream"], item["seq"], item["org"]) for item in own] == [
        (f"{kind}/1", 1, "acme"),
        (f"{kind}/3", 1, "acme"),
    ]
    one = client.get(f"/v1/streams/{kind}/1").json()
    assert (one["seq"], one["link"]) == (1, store.stream_head(f"{kind}/1").link.hex())


def test_the_state_of_a_stream_at_any_point(everywhere: Any, fresh: str) -> None:
    """A state at a seq, at a time and now is what `state.fold` gives."""
    store = everywhere.service.store
    for number in range(1, 4):
        store.append(fresh, NewEvent("noted", {f"k{number}": number}, time=number * 10))
    get = everywhere.client.get
    assert get(f"/v1/streams/{fresh}/state", params={"seq": 2}).json()["state"] == {"k1": 1, "k2": 2}
    assert get(f"/v1/streams/{fresh}/state", params={"time": 10}).json()["state"] == {"k1": 1}
    now = get(f"/v1/streams/{fresh}/state").json()
    folded = state.fold(store, merge, fresh)
    assert (now["state"], now["state_hash"], now["seq"]) == (folded.value, folded.hash.hex(), 3)
    assert get(f"/v1/streams/{fresh}/state", params={"reducer": "unknown"}).status_code == 404
    assert get(f"/v1/streams/{fresh}/state", params={"seq": 1, "time": 1}).status_code == 422


def test_a_reader_of_its_own_writes_waits_for_the_rows(serve: Any) -> None:
    """CP-13: `wait` answers when the projection has caught up, and within a bounded time if it has not."""
    served = serve(projections=[Seen()])
    position = served.append("order/1", {}).json()["last_position"]
    done = served.client.get("/v1/wait", params={"projection": "seen", "position": position, "timeout": 30})
    assert (done.status_code, done.json()["reached"]) == (200, position)
    late = served.client.get("/v1/wait", params={"projection": "seen", "position": position + 1, "timeout": 0.05})
    assert (late.status_code, late.json()["code"]) == (409, "not_caught_up")
    unknown = served.client.get("/v1/wait", params={"projection": "other", "position": 1})
    assert unknown.status_code == 404


def test_a_list_of_runs_continues_where_the_scan_of_streams_ended(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-10: a page scans a bounded number of streams; the rest is on later pages."""
    monkeypatch.setattr(runs, "SCANNED_MAX", 1000)
    store = tallystick.open("memory:")
    store.append_all([(f"run/{number:04}", [NewEvent("noted", {})], 0) for number in range(1500)])
    store.append("run/last", NewEvent("RUN_CREATED", {}))
    served = serve(store)
    found, after, pages = [], "", 0
    while after is not None:
        page = served.client.get("/v1/runs", params={"after": after}).json()
        found, after, pages = [*found, *(run["run"] for run in page["runs"])], page["next"], pages + 1
    assert (found, pages) == (["last"], 2)


def test_a_filter_looks_a_bounded_way_for_a_page(everywhere: Any, fresh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that nothing passes does not read the whole log at once; `through` continues, and following too."""
    monkeypatch.setattr(log_page, "LOOKED_MAX", 10)
    everywhere.append(fresh, *({"n": n} for n in range(25)))
    begin = everywhere.service.store.head() - 25
    everywhere.append(f"rare/{fresh[6:]}", {"n": 25})
    query = {"kind": "rare", "stream": f"rare/{fresh[6:]}"}
    page = everywhere.client.get("/v1/events", params={"after": begin, **query}).json()
    assert (page["events"], page["through"]) == ([], begin + 10)
    last = everywhere.client.get("/v1/events", params={"after": begin + 20, **query}).json()
    assert ([event["payload"]["n"] for event in last["events"]], last["through"]) == ([25], begin + 26)
    end = {"after": (1 << 63) - 1, **query}
    assert everywhere.client.get("/v1/events", params=end).json()["events"] == []
    with everywhere.client.stream("GET", "/v1/follow", params={"after": begin, **query}) as answer:
        assert next(line for line in answer.iter_lines() if '"n":25' in line)


def test_a_page_is_bounded_in_bytes(serve: Any) -> None:
    """A page of large events is short, and the pages after it give all the others."""
    served = serve(limits={"page_bytes_max": 100_000})
    for number in range(40):
        served.service.store.append("order/1", NewEvent("noted", {"n": number, "text": "x" * 20_000}))
    page = served.client.get("/v1/events?limit=1000")
    assert len(page.content) < 2_000_000
    for path in ("/v1/events", "/v1/streams/order/1/events"):
        found = walk(served.client, path, limit=1000)
        assert [event["payload"]["n"] for event in found] == list(range(40))


def test_what_was_pruned_is_gone_by_name(serve: Any) -> None:
    """Reading below the floor is 410; `over_pruned` gives what is left."""
    served = serve()
    store = served.service.store
    store.append("order/1", [NewEvent("noted", {"n": number}) for number in range(4)])
    state.prune(store, "order/1", before=3, reducers=[merge], snapshot=True, accept=True)
    gone = served.client.get("/v1/events")
    assert (gone.status_code, gone.json()["code"]) == (410, "history_pruned")
    left = served.client.get("/v1/events?over_pruned=true&kind=order").json()["events"]
    assert [event["seq"] for event in left] == [3, 4]
    assert served.client.get("/v1/streams/order/1").json()["pruned_through"] == 2


def test_a_damaged_store_serves_what_it_has_and_says_so(serve: Any, tmp_path: Any) -> None:
    """LH-08: reads continue around the hole, appends are refused, and /v1/store names the range."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        for number in range(6):
            store.append("order/1", NewEvent("noted", {"n": number, "text": text(3000)}))
    path = tmp_path / "log" / "current.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    served = serve(url)
    page = served.client.get("/v1/events?over_holes=true").json()
    told = served.client.get("/v1/store").json()
    assert told["readonly"] is True
    assert len(told["holes"]) == 1
    lost = range(page["holes"][0]["first"], page["holes"][0]["last"] + 1)
    assert [event["position"] for event in page["events"]] == [n for n in range(1, 7) if n not in lost]
    before = served.client.get("/v1/events").json()
    assert [event["position"] for event in before["events"]] == list(range(1, lost[0]))
    assert before["through"] == lost[0] - 1
    stopped = served.client.get("/v1/events", params={"after": lost[0] - 1})
    assert (stopped.status_code, stopped.json()["code"]) == (503, "damaged")
    refused = served.append("order/1", {})
    assert (refused.status_code, refused.json()["code"]) == (503, "damaged")


def test_a_store_that_another_process_writes_can_be_read(serve: Any, tmp_path: Any) -> None:
    """Opened for reading, it serves what another process commits, and refuses appends."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as writer:
        writer.append("order/1", NewEvent("noted", {"n": 1}))
        served = serve(tallystick.open(url, readonly=True))
        writer.append("order/1", NewEvent("noted", {"n": 2}))
        assert [event["seq"] for event in walk(served.client, "/v1/events")] == [1, 2]
        refused = served.append("order/1", {})
        assert (refused.status_code, refused.json()["code"]) == (503, "read_only")


def test_a_store_of_runs_is_served_as_far_as_it_goes(serve: Any, tmp_path: Any) -> None:
    """Streams, states and run after run can be read. Following needs one global order, and is refused."""
    served = serve(f"ndjson:{tmp_path}/runs", profile="run")
    assert served.append("run/a", {"n": 1}, {"n": 2}).status_code == 201
    assert [event["seq"] for event in walk(served.client, "/v1/streams/run/a/events")] == [1, 2]
    assert served.client.get("/v1/streams/run/a/state").json()["state"] == {"n": 2}
    assert [event["seq"] for event in walk(served.client, "/v1/events", limit=1)] == [1, 2]
    refused = served.client.get("/v1/follow?after=0")
    assert (refused.status_code, refused.json()["code"]) == (501, "unsupported_capability")


def test_schemas_audit_and_document_are_served(serve: Any) -> None:
    """The catalog as exported, the control facts, and an OpenAPI document that names every route of the API."""
    from pydantic import BaseModel

    class Noted(BaseModel):
        n: int

    catalog = tallystick.Catalog()
    catalog.register("noted", Noted)
    served = serve(catalog=catalog)
    assert list(served.client.get("/v1/schemas").json()["types"]) == ["noted"]
    assert served.append("order/1", {"n": "x"}).status_code == 422
    served.service.store.configure(secrets="warn")
    facts = served.client.get("/v1/audit").json()["events"]
    assert [fact["type"] for fact in facts] == ["tally.setting.changed"]
    paths = served.client.get("/openapi.json").json()["paths"]
    assert {"/v1/append", "/v1/streams/{kind}/{name}/events", "/v1/follow"} <= paths.keys()


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/events/01890000-0000-7000-8000-000000000000", "/v1/streams/a/b"])
def test_what_is_not_there_is_answered_alike(everywhere: Any, path: str) -> None:
    """An unknown path, an unknown event and an unknown stream give the same bytes."""
    answer = everywhere.client.get(path)
    assert answer.status_code == 404
    assert answer.content == everywhere.client.get("/elsewhere").content
