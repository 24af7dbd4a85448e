"""Selections in SQL select the same events as the model."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tallystick import NewEvent, Selection, select
from tallystick.engines.sqlite.queries import page_query

SELECTIONS = [
    Selection(types=frozenset({"a.x"})),
    Selection(types=frozenset({"a.x", "a.y"})),
    Selection(streams=frozenset({"order/1"})),
    Selection(streams=frozenset({"order/1", "order.x/1", "nobody/1"})),
    Selection(kinds=frozenset({"order"})),
    Selection(kinds=frozenset({"order", "orders"})),
    Selection(org="acme"),
    Selection(org="acme", app="shop", env="prod"),
    Selection(org="nobody"),
    Selection(app='it\'s "quoted" %_'),
    Selection(time_from=10, time_until=20),
    Selection(streams=frozenset({"order/1"}), types=frozenset({"a.y"}), time_from=5),
    Selection(types=frozenset({"a.z"}), org="acme", kinds=frozenset({"order"})),
]


@pytest.fixture
def mixed(store):
    """Events of several streams, types, orgs and times."""
    apps = ("shop", 'it\'s "quoted" %_', None)
    parts = itertools.product(("order/1", "order/2", "order.x/1", "orders/1"), ("a.x", "a.y", "a.z"), apps, (1, 15))
    for stream, type_, app, time in parts:
        org = {"order/1": "acme", "order/2": "other", "orders/1": "acme"}.get(stream)
        meta = {"org": org, "app": app, "env": "prod" if app == "shop" else None, "nested": {"org": "acme"}}
        meta = {key: value for key, value in meta.items() if value is not None}
        store.append(stream, NewEvent(type_, {"stream": stream}, meta=meta, time=time))
    return store


def named(value: object) -> str:
    """A test id that is the same in every process: sets have no order."""
    fields = msgspec.structs.asdict(value) if isinstance(value, Selection) else {"": value}
    shown = {key: sorted(found) if isinstance(found, frozenset) else found for key, found in fields.items() if found}
    return ",".join(f"{key}={found}" for key, found in shown.items()) or "everything"


@pytest.mark.parametrize("selection", SELECTIONS, ids=named)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_hold_what_the_model_selects(mixed, selection, limit):
    """CP-09: page after page gives the selected events in ascending order, each once, and ends at the head."""
    wanted = selection.predicate()
    expected = [event for event in mixed.read().events if wanted(event)]
    found, after = [], 0
    while after < mixed.head():
        page = mixed.read(after=after, selection=selection, limit=limit)
        assert page.through > after
        assert len(page.events) <= limit
        found += page.events
        after = page.through
    assert found == expected
    assert after == mixed.head()


def test_a_page_is_bounded_on_both_sides(mixed):
    """`after` is exclusive, `until` inclusive, and neither goes past the head."""
    page = mixed.read(after=3, until=9, selection=select(org="acme"))
    assert all(3 < event.position <= 9 for event in page.events)
    assert page.through == 9
    assert mixed.read(after=5, until=3).through == 5
    assert mixed.read(after=10_000, until=20_000).through == 10_000


@pytest.mark.parametrize(
    ("selection", "index"),
    [
        (Selection(), "PRIMARY KEY"),
        (Selection(org="acme"), "events_by_org"),
        (Selection(types=frozenset({"a.x"})), "events_by_type"),
        (Selection(types=frozenset({"a.x", "a.y"})), "PRIMARY KEY"),
        (Selection(kinds=frozenset({"order"})), "PRIMARY KEY"),
        (Selection(streams=frozenset({"order/1"})), "sqlite_autoindex_events_1"),
        (Selection(streams=frozenset({"order/1", "order/2"})), "PRIMARY KEY"),
    ],
    ids=named,
)
def test_a_page_is_found_by_an_index_and_never_sorted(store, selection, index):
    """CP-03: org and type are found by their index; no selection makes SQLite collect and sort what is selected."""
    query, values = page_query(selection, first=1, until=10, limit=10)
    with store.log._database.reading() as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values))
    assert index in plan
    assert "TEMP B-TREE" not in plan
