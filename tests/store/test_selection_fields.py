"""Whatever takes a selection applies every field of it, or refuses: a field that is left out selects too much."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, Selection, Store, match, moving
from tallystick.cli.main import tally
from tallystick.pipeline.source import log_query
from tallystick.projections.consumer import Consumer
from tallystick.server.api.parameters import Filters
from tallystick.server.tail import Channel, _choose
from tallystick.store import control
from tallystick.testing import postgres

FIELDS: dict[str, Any] = {
    "streams": frozenset({"cart/1"}),
    "kinds": frozenset({"cart"}),
    "types": frozenset({"thing.undone"}),
    "org": "acme",
    "app": "web",
    "env": "live",
    "actor_id": "ada",
    "correlation_id": "c-1",
    "causation_id": "k-1",
    "query": match(tags=["a:1", "b c,d"]),
    "time_from": 40,
    "time_until": 20,
}
"""A value for each field, which selects one event of `written`."""

HTTP: dict[str, dict[str, Any]] = {
    "streams": {"stream": ["cart/1"]},
    "kinds": {"kind": ["cart"]},
    "types": {"type": ["thing.undone"]},
    "query": {"tag": ["a:1", "b c,d"]},
}
SPARK: dict[str, dict[str, str]] = {
    "streams": {"stream": "cart/1"},
    "kinds": {"kind": "cart"},
    "types": {"type": "thing.undone"},
    "org": {"tenant": "acme"},
    "actor_id": {"actorId": "ada"},
    "correlation_id": {"correlationId": "c-1"},
    "causation_id": {"causationId": "k-1"},
    "query": {"tags": '["a:1", "b c,d"]'},
    "time_from": {"timeFrom": "40"},
    "time_until": {"timeUntil": "20"},
}
CLI: dict[str, list[str]] = {
    "streams": ["--stream", "cart/1"],
    "kinds": ["--kind", "cart"],
    "types": ["--type", "thing.undone"],
    "query": ["--tag", "a:1", "--tag", "b c,d"],
    "time_from": ["--from", "1970-01-01T00:00:00.000000040Z"],
    "time_until": ["--to", "1970-01-01T00:00:00.000000020Z"],
}
each_field = pytest.mark.parametrize("field", FIELDS)


def write(store: Store) -> None:
    """Events of which each field selects a few."""
    for number, stream in enumerate(["order/1", "cart/1", "order/1", "order/2"]):
        type_ = "thing.undone" if number == 2 else "thing.done"
        store.append(stream, NewEvent(type_, {"n": number}, time=10 * (number + 1)))
    for key in ("app", "env", "actor_id", "correlation_id", "causation_id"):
        store.append("order/3", NewEvent("thing.done", {}, meta={key: FIELDS[key]}, time=30))
        store.append("order/3", NewEvent("thing.done", {}, meta={key: f"{FIELDS[key]}x"}, time=30))
    store.append("order/4", NewEvent("thing.done", {}, meta={"org": "acme"}, time=30))
    for tags in (["a:1"], ["b c,d"], ["b c,d", "a:1", "c:1"], ["a:1", "b c"]):
        store.append("order/3", NewEvent("thing.done", {}, tags=tags, time=30))


def wanted(store: Store, selection: Selection) -> list[int]:
    """The positions that the selection names, by its own predicate."""
    chosen = selection.predicate()
    found = [event.position for event in store.events() if chosen(event)]
    assert 0 < len(found) < store.head(), "the example selects something, and not everything"
    return found


@pytest.fixture
def written() -> Iterator[Store]:
    """A store in memory with these events."""
    with tallystick.open("memory:") as store:
        write(store)
        yield store


def test_every_field_has_an_example() -> None:
    """TAG-01: a new field of selections is looked at here, or this fails."""
    assert list(FIELDS) == [field.name for field in msgspec.structs.fields(Selection)]


@pytest.fixture(params=["memory", "files", "sqlite"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """A new store of each engine that has all kinds of streams."""
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path}/log"


@each_field
def test_every_engine_applies_it(field: str, engine_url: str) -> None:
    """TAG-01: forward, backward, page by page, exporting and consuming."""
    selection = Selection(**{field: FIELDS[field]})
    with tallystick.open(engine_url) as store:
        write(store)
        expected = wanted(store, selection)
        assert [event.position for event in store.events(selection=selection)] == expected
        assert [event.position for event in store.events(selection=selection, backward=True)] == expected[::-1]
        pages = store.pages(selection=selection, limit=1)
        assert [event.position for page in pages for event in page.events] == expected
        exported = map(json.loads, moving.export(store, selection=selection))
        assert [event["position"] for event in exported] == expected
        pages = store.consume("mine", selection=selection)
        assert [event.position for page in pages for event in page.events] == expected
        seen: list[int] = []
        Consumer(store, "other", lambda event: seen.append(event.position), selection=selection).catch_up()
        assert seen == expected


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """A database of a real server, with the events."""
    with postgres.database() as url:
        with tallystick.open(str(url)) as store:
            write(store)
            store.wait(0, timeout=5)
        yield str(url)


@each_field
def test_a_server_applies_it(field: str, server_url: str) -> None:
    """TAG-01: PostgreSQL, and the question that Spark's workers ask it directly."""
    import psycopg

    selection = Selection(**{field: FIELDS[field]})
    with tallystick.open(server_url, readonly=True) as store:
        expected = wanted(store, selection)
        assert [event.position for event in store.events(selection=selection)] == expected
        log: Any = store.log
        asked = log.session_query(["position"], selection=selection, after=0, until=store.head(), over_pruned=False)
        with psycopg.connect(log.address) as connection:
            for statement in asked.before:
                connection.execute(statement)
            assert sorted(row[0] for row in connection.execute(asked.query)) == expected


@each_field
def test_http_takes_it(field: str) -> None:
    """TAG-01: the filters of the routes make the same selection."""
    filters = Filters(**HTTP.get(field, {field: FIELDS[field]}))
    assert filters.selection == Selection(**{field: FIELDS[field]})


@each_field
def test_followers_get_it(field: str, written: Store) -> None:
    """TAG-01: the tail that all followers share chooses by the same predicate."""
    selection = Selection(**{field: FIELDS[field]})
    events = written.read().events
    chosen = _choose(None, Channel(selection, is_tenants=False), events)  # type: ignore[arg-type]
    assert [events[index].position for index in chosen] == wanted(written, selection)


@each_field
def test_spark_takes_it_and_names_it(field: str) -> None:
    """TAG-01, PIPE-01: an option for each, and a checkpoint of one selection is not that of another."""
    selection = Selection(**{field: FIELDS[field]})
    assert log_query.parse({"url": "files:x"} | SPARK.get(field, {field: FIELDS[field]})).selection == selection
    others = [Selection(**{key: value}) for key, value in FIELDS.items() if key != field]
    others += [Selection(), Selection(query=match(tags=["a:1"])), Selection(query=match(tags=["a:1,b c", "d"]))]
    assert log_query.describe(selection) not in [log_query.describe(other) for other in others]


@each_field
def test_the_command_line_takes_it(field: str, tmp_path: Any) -> None:
    """TAG-01: `tally read`, `tail` and `export`."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        write(store)
        expected = wanted(store, Selection(**{field: FIELDS[field]}))
    options = CLI.get(field, [f"--{field.replace('_', '-')}", FIELDS[field]])
    for command in (["read", url, "--json"], ["tail", url, "-n", "99", "--json"], ["export", url]):
        result = CliRunner().invoke(tally, [*command, *options])
        assert [json.loads(line)["position"] for line in result.stdout.splitlines()] == expected, result.stderr


@each_field
def test_the_audit_applies_it(field: str, written: Store) -> None:
    """TAG-01: control facts are chosen by the same predicate."""
    selection = Selection(**{field: FIELDS[field]})
    written.configure(secrets="warn")
    chosen = selection.predicate()
    facts = [event for event in written.events() if event.type.startswith("tally.")]
    assert len(facts) == 1
    assert list(control.audit(written.log, selection=selection)) == [fact for fact in facts if chosen(fact)]
