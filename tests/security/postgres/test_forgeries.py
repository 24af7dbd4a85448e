"""A login that appends with its own SQL can only append events."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Store, errors, state
from tallystick.engines.postgres import batches
from tallystick.event.line import line
from tallystick.projections import Consumer, Live, Projection, ViewReader
from tallystick.server.tokens import ISSUED, STREAM, Tokens
from tallystick.store.ledger import Head
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id, named
from tests.server.conftest import Book, serving

from .raw import FUNCTIONS, Draws, call, connect, rows_of, write_batch

pytestmark = pytest.mark.security

Login = Callable[..., str]


def _issued(secret: str) -> Draws:
    fact = {
        "stream": "",
        "id": secrets.token_hex(6),
        "kind": "admin",
        "actor": "me",
        "org": None,
        "sha256": hashlib.sha256(secret.encode()).hexdigest(),
        "expires": (1 << 63) - 1,
        "note": "",
    }
    return Draws(json.dumps(fact, sort_keys=True, separators=(",", ":")), type=ISSUED)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nobody_issues_a_token_by_hand(store: Store, login: Login, function: str) -> None:
    """CP-01, CP-10: control streams have a role of their own: a login that appends cannot make itself admin."""
    secret = "tally_admin_" + "a" * 43
    for stream in (STREAM, "tally.store/settings", "tally.stream/order:a"):
        with connect(login("tally_app")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            call(connection, function, stream, [_issued(secret)])
    assert not Tokens(store).required
    assert store.head() == 0


def test_a_login_with_the_control_role_issues_tokens(store: Store, login: Login) -> None:
    """CP-10: the service writes control facts; a login that only appends gets an error that names the missing role."""
    with tallystick.open(login("tally_control")) as service:
        issued = Tokens(service).issue("writer", actor="till", org="acme")
    assert Tokens(store).check(issued.secret).actor == "till"
    with tallystick.open(login("tally_app")) as service:
        with pytest.raises(tallystick.errors.NotPermitted, match="tally_control"):
            Tokens(service).issue("admin", actor="me")
        service.append("order/a", NewEvent("thing.done", {}))
    assert len(Tokens(store).all()) == 1


class Counted(Projection):
    """Counts how often each thing was done."""

    types = ("thing.done",)
    key = "payload.a"

    def initial(self) -> Any:
        """Zero."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """Add one."""
        return {"n": state["n"] + 1}


NO_EVENTS = {
    "no JSON": Draws("nothing"),
    "nothing": Draws(""),
    "no object": Draws("[]"),
    "two values": Draws("{},{}"),
    "another event": Draws('{}},{"position":7,"stream":"order/x","payload":{}'),
    "a line break": Draws('{"a":1}\n\nevent: x\ndata: {}'),
    "a line break in JSON": Draws('{"a":\n1}'),
    "a return": Draws('{"a":\r1}'),
    "a key that stands twice": Draws('{"a":1,"a":2}'),
    "a lone surrogate": Draws('{"a":"\\ud800"}'),
    "U+0000": Draws('{"a":"\\u0000"}'),
    "too deep": Draws('{"a":' + "[" * 254 + "]" * 254 + "}"),
    "deep enough to stop a parser": Draws('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "too large": Draws('{"a":"' + "x" * (1 << 20) + '"}'),
    "no JSON for meta": Draws(meta="nothing"),
    "a list for meta": Draws(meta="[]"),
    "meta with a line break": Draws(meta='{"org":\n"acme"}'),
    "a number for an org": Draws(meta='{"org":5}'),
    "an empty org": Draws(meta='{"org":""}'),
    "an org too long for an index": Draws(meta='{"org":"' + secrets.token_hex(2000) + '"}'),
    "a list for an app": Draws(meta='{"app":[]}'),
    "a signature that is too short": Draws(signature=b"x" * 63),
    "a signature that is too long": Draws(signature=b"x" * 65),
    "an empty signature": Draws(signature=b""),
    "no type": Draws(type=""),
    "a type with a line break": Draws(type="thing.done\n"),
    "no version": Draws(version=0),
    "a negative time": Draws(time=-1),
}


EVENTS = (
    '{"a":"\\n","b":1e308,"c":[-9223372036854775808]}',
    '{"a":9223372036854775807,"b":5e-324,"c":-1.7976931348623157E+308,"d":0.1234567890123456789012345}',
    '{"a":":99999999999999999999","b":"x,1e999","c":"[1e999","d":"\\",-1e999","e":[1E5,0e0,-0.0]}',
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_event_is_not_appended(store: Store, login: Login, function: str) -> None:
    """CP-01: no stored value can break a line, page or stream of events."""
    store.append("order/a", NewEvent("thing.done", {}))
    with connect(login("tally_app")) as connection:
        for number, forged in enumerate(NO_EVENTS.values()):
            with pytest.raises(psycopg.Error):
                call(connection, function, f"order/{number}", [forged])
        for name in (
            "order",
            "Order/a",
            "order/",
            "order/a/b",
            "order/a\n",
            "run/Upper",
            f"order/{'x' * 192}",
            "-/a",
            "",
        ):
            with pytest.raises(psycopg.Error):
                call(connection, function, name, [Draws()])
        call(connection, function, "order/b", [Draws(each, signature=b"x" * 64) for each in EVENTS])
    found = store.read().events
    assert [event.data for event in found[1:]] == [json.loads(each) for each in EVENTS]
    assert [event.stream for event in found] == ["order/a"] + ["order/b"] * len(EVENTS)
    assert all(json.loads(line(event)) and "\n" not in line(event) for event in store.read().events)
    assert verify(store.log).ok


UNREADABLE = ('{"a":' + "9" * 5000 + "}", '{"a":[-1e999]}')


@pytest.mark.parametrize("payload", UNREADABLE, ids=["5,000 digits", "infinity"])
def test_a_number_that_no_reader_has_costs_only_its_own_event(store: Store, login: Login, payload: str) -> None:
    """CP-01, SAFE-09: the database takes any number. Pages have its bytes, consumers continue, and it can be erased."""
    Live(store, Counted()).catch_up()
    with connect(login("tally_app")) as connection:
        call(connection, "append_event", "order/a", [Draws(payload)])
    store.append("order/b", NewEvent("thing.done", {"a": "x"}))
    found = store.read().events
    assert f'"payload":{payload},' in line(found[0])
    with pytest.raises(errors.Damaged, match="position 1"):
        _ = found[0].data
    seen: list[str] = []
    assert Consumer(store, "mails", lambda event: seen.append(event.data["a"]), attempts=1).catch_up() == 2
    assert seen == ["x"]
    state.erase(store, "order/a", 1, reason="no reader has such a number")
    assert Live(store, Counted()).catch_up() == store.head()
    assert ViewReader(store, "Counted").get("x") == {"n": 1}
    assert verify(store.log).ok


def test_meta_that_no_reader_has_ends_no_stream(store: Store, login: Login) -> None:
    """CP-01, SAFE-09: the org of an event can be read from its meta, and delivery needs nothing more."""
    meta = '{"org":"acme","a":1e999}'
    tokens = Book(ann=("tenant", "acme"), ben=("tenant", "bolt"), ada=("admin", None))
    with serving() as serve:
        served = serve(store, tokens=tokens)
        with ExitStack() as open_:
            clients = {name: open_.enter_context(served.as_(name)) for name in ("ann", "ben", "ada")}
            streams = {
                name: open_.enter_context(client.stream("GET", "/v1/follow?after=0")).iter_lines()
                for name, client in clients.items()
            }
            with connect(login("tally_app")) as connection:
                call(connection, "append_event", "order/a", [Draws(meta=meta)])
            for org in ("acme", "bolt"):
                store.append(f"order/{org}", NewEvent("thing.done", {}, meta={"org": org}))
            seen = {}
            for (name, lines), count in zip(streams.items(), (2, 1, 3), strict=True):
                seen[name] = list(islice((each for each in lines if each.startswith("data: ")), count))
            assert {name: len(found) for name, found in seen.items()} == {"ann": 2, "ben": 1, "ada": 3}
            pages = {name: client.get("/v1/events").json()["events"] for name, client in clients.items()}
            assert {name: len(found) for name, found in pages.items()} == {"ann": 2, "ben": 1, "ada": 3}
            assert f'"meta":{meta},' in clients["ann"].get(f"/v1/events/{pages['ann'][0]['id']}").text
            assert clients["ben"].get(f"/v1/events/{pages['ann'][0]['id']}").status_code == 404
            paths = ("/console", "/console/streams/order/a", f"/console/events/{pages['ann'][0]['id']}")
            answers = {path: clients["ada"].get(path, follow_redirects=True).status_code for path in paths}
            assert set(answers.values()) == {200}, answers


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("owner", [None, "bolt"])
def test_no_org_takes_over_a_stream(store: Store, login: Login, function: str, owner: str | None) -> None:
    """CP-10: a session with an org cannot append to a stream of another org, or of none."""
    meta = {} if owner is None else {"org": owner}
    store.append("order/a", NewEvent("thing.done", {}, meta=meta))
    head = store.stream_head("order/a")
    assert head is not None
    with connect(login("tally_app"), org="acme") as connection, pytest.raises(psycopg.Error):
        call(connection, function, "order/a", [Draws(meta='{"org":"acme"}')], head)
    assert store.stream_head("order/a") == head


def test_a_login_that_appends_hides_nothing_from_readers(store: Store, login: Login) -> None:
    """CP-10: only logins that may write control facts can declare infrastructure."""
    url = login("tally_app")
    with connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT tally.declare_infrastructure(ARRAY['order'])")
    with pytest.raises(tallystick.errors.NotPermitted, match="tally_control"):
        tallystick.open(url, infrastructure=("order",))
    tallystick.open(login("tally_control"), infrastructure=("node",)).close()
    tallystick.open(url, infrastructure=("node",)).close()


def test_an_id_of_another_org_shows_that_it_is_taken_and_no_more(store: Store, login: Login) -> None:
    """CP-10: a retry is compared with nothing that another org stored."""
    store.append("secret/plan", named(1, meta={"org": "bolt", "plan": "x"}))
    with connect(login("tally_app"), org="acme") as connection:
        found = connection.execute("SELECT * FROM tally.events_with(%s::uuid[])", ([event_id(1).hex()],)).fetchall()
        assert connection.execute("SELECT * FROM tally.leases_of(ARRAY['run/x'])").fetchall() == []
    zeros = bytes(32)
    assert found == [(0, "(of another org)", 0, "", 0, event_id(1), 0, None, b"{}", zeros, zeros, None)]


def test_a_commit_keeps_the_order_of_its_streams(store: Store, login: Login) -> None:
    """CP-04: seq 2 cannot have a lower position than seq 1 of its stream."""
    first, second = rows_of("order/a", [Draws(), Draws()])
    by_stream = batches._by_stream
    with connect(login("tally_app")) as connection, pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "_by_stream", lambda rows, numbers: (by_stream(rows, numbers)[0], [2, 1]))
        with pytest.raises(psycopg.Error):
            write_batch(connection, {"order/a": Head(2, second[10])}, [first, second])
    assert store.head() == 0


def test_a_lease_goes_up_by_one(store: Store, login: Login) -> None:
    """LH-12: nobody can take a lease with so high a number that none is left for the next."""
    with connect(login("tally_app")) as connection:
        for stream, number in (("run/a", (1 << 63) - 1), ("run/a", 0), ("run/a", 2), ("order/a", 1), ("run/A", 1)):
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT tally.put_lease(%s, %s, 'h', 1, 1, 'x')", (stream, number))
    store.acquire_lease("run/a")


def test_a_command_names_only_stored_events(store: Store, login: Login) -> None:
    """CP-06: a record of a command names events that are stored, and under an org those of that org."""
    store.append("order/a", NewEvent("thing.done", {}, meta={"org": "bolt"}))
    for org, last in (("", 7), ("acme", 1)):
        with connect(login("tally_app"), org=org or None) as connection, pytest.raises(psycopg.Error):
            connection.execute(
                "SELECT tally.write_commands(ARRAY[%s], ARRAY['me'], ARRAY['here'], ARRAY['1'], ARRAY['\\x00'::bytea],"
                " ARRAY['\\x00'::bytea], ARRAY[1::bigint], ARRAY[1], ARRAY[0], ARRAY['order/a'], ARRAY[1::bigint],"
                " ARRAY[%s::bigint])",
                (org, last),
            )


def test_an_org_neither_sees_nor_moves_the_numbers_of_another(store: Store, login: Login) -> None:
    """CP-10, LH-03: the same holds with its own SQL and through the engine."""
    numbered = {"source": "till", "source_seq": 41, "org": "bolt"}
    store.append("order/a", NewEvent("thing.done", {}, meta=numbered))
    url = login("tally_app")
    with connect(url, org="acme") as connection:
        asked = connection.execute("SELECT * FROM tally.heads_of_sources(ARRAY['bolt', ''], ARRAY['till', 'till'])")
        assert asked.fetchall() == []
        for statement in (
            "SELECT tally.move_sources(ARRAY['bolt'], ARRAY['till'], ARRAY[9223372036854775807])",
            "SELECT tally.move_sources(ARRAY['acme'], ARRAY[repeat('x', 1001)], ARRAY[1::bigint])",
            "SELECT * FROM tally.sources",
            "SELECT * FROM tally.org_sources",
            "SELECT * FROM tally.leases",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode())
    with tallystick.open(url, org="acme") as acting:
        acting.append(
            "order/b", NewEvent("thing.done", {}, meta={"source": "till", "source_seq": (1 << 63) - 1, "org": "acme"})
        )
    store.append("order/a", NewEvent("thing.done", {}, meta=numbered | {"source_seq": 42}))
