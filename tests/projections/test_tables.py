"""Projections that own SQL tables."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, NewEvent, errors
from tallystick.projections import Live, TableProjection, TableRunner, rebuild, run_inline
from tallystick.store.tables import Execute
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill
from tallystick.testing.shop import PAID, PLACED, order_event

from .conftest import EMBEDDED


@pytest.fixture(params=EMBEDDED)
def engine(request: pytest.FixtureRequest) -> str:
    """The engines with the same SQL dialect; `tests/postgres/test_view_tables.py` has the other."""
    return str(request.param)


class OpenOrders(TableProjection):
    """Orders that are placed but not paid, by amount."""

    types = (PLACED, PAID)
    tables = ("orders", "sums")

    def create(self, execute: Execute) -> None:
        execute("CREATE TABLE {orders} (stream TEXT, seq INTEGER, amount INTEGER, PRIMARY KEY (stream, seq))")
        execute("CREATE TABLE {sums} (customer TEXT PRIMARY KEY, amount INTEGER NOT NULL)")

    def apply(self, execute: Any, event: Event) -> None:
        execute("INSERT INTO {orders} VALUES (?, ?, ?)", (event.stream, event.seq, event.data["amount"]))
        add = "ON CONFLICT (customer) DO UPDATE SET amount = {sums}.amount + excluded.amount"
        execute("INSERT INTO {sums} VALUES (?, ?) " + add, (event.data["customer"], event.data["amount"]))


SUMS = "SELECT customer, amount FROM {sums} ORDER BY customer"


def expected(store: Any) -> list[tuple[str, int]]:
    """What the sums must be."""
    sums: dict[str, int] = {}
    for event in store.events():
        if event.type in (PLACED, PAID):
            sums[event.data["customer"]] = sums.get(event.data["customer"], 0) + event.data["amount"]
    return sorted(sums.items())


def test_tables_follow_the_log_and_are_rebuilt(open_store: Any, engine: str) -> None:
    """CP-08: it catches up in batches, then rebuilds into new tables; the old ones are dropped."""
    store = open_store(engine)
    fill(store)
    runner = TableRunner(store, OpenOrders(), batch_events=4)
    assert runner.catch_up() == store.head()
    assert runner.query(SUMS) == expected(store)
    fill(store, 10, first=30)
    runner.catch_up()
    assert runner.query("SELECT count(*) FROM {orders}") == [(27,)]
    runner.rebuild()
    assert runner.query(SUMS) == expected(store)
    with store.log.view_tables.reading() as session:
        names = session.execute("SELECT name FROM sqlite_master WHERE name LIKE 'view_OpenOrders%' AND type = 'table'")
    assert sorted(name for (name,) in names) == ["view_OpenOrders_2_orders", "view_OpenOrders_2_sums"]


def test_a_batch_that_fails_changes_nothing(open_store: Any, engine: str) -> None:
    """CP-08: tables and checkpoint change together or not at all."""
    store = open_store(engine)
    fill(store, 6)
    runner = TableRunner(store, OpenOrders())
    runner.catch_up()
    before = runner.query(SUMS)
    store.append("order/9", [order_event(PLACED), NewEvent(PLACED, {"no": "amount"})])
    with pytest.raises(errors.ProjectionFailed):
        runner.catch_up()
    assert runner.query(SUMS) == before


def test_what_was_pruned_is_not_computed_from_what_is_left(open_store: Any, engine: str) -> None:
    """Settled 17: a rebuild of tables is refused too, and the old tables stay."""
    store = open_store(engine)
    fill(store)
    runner = TableRunner(store, OpenOrders())
    runner.catch_up()
    sums = runner.query(SUMS)
    upkeep.prune(store, "order/1", 2)
    with pytest.raises(errors.HistoryPruned):
        runner.rebuild()
    assert runner.query(SUMS) == sums


def test_an_erased_payload_takes_the_tables_with_it(open_store: Any, engine: str) -> None:
    """Settled 25: only the projection knows where the payload went, so the tables are dropped and filled again."""

    class Amounts(OpenOrders):
        def apply(self, execute: Any, event: Event) -> None:
            if event.data is not None:
                super().apply(execute, event)

    store = open_store(engine)
    fill(store)
    runner = TableRunner(store, Amounts())
    runner.catch_up()
    upkeep.erase(store, "order/1", 1)
    with pytest.raises(errors.NotCaughtUp):
        runner.query(SUMS)
    runner.catch_up()
    assert runner.query("SELECT count(*) FROM {orders}") == [(19,)]


def test_the_kinds_are_not_mixed_up(open_store: Any) -> None:
    """CP-08: runners of rows refuse a projection with tables, by name."""
    store = open_store()
    for run in (lambda: Live(store, OpenOrders()), lambda: run_inline(store, OpenOrders())):
        with pytest.raises(errors.ProjectionInvalid, match="SQL tables"):
            run()
    with pytest.raises(errors.ProjectionInvalid, match="SQL tables"):
        rebuild(store, OpenOrders())
    with pytest.raises(errors.NotCaughtUp):
        TableRunner(store, OpenOrders()).query(SUMS)


def test_the_tables_of_similar_names_are_told_apart(open_store: Any, engine: str) -> None:
    """CP-08: dropping epoch 1 of `a` leaves the tables of `a_1` alone."""

    class First(OpenOrders):
        name = "a"

    class Second(OpenOrders):
        name = "a_1"

    store = open_store(engine)
    fill(store)
    for projection in (First(), Second()):
        TableRunner(store, projection).catch_up()
    TableRunner(store, First()).rebuild()
    assert TableRunner(store, Second()).query(SUMS) == expected(store)
