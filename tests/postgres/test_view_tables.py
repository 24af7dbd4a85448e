"""Tables that projections own, in the schema `tally_views` and in PostgreSQL's dialect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Event, NewEvent, Store, errors
from tallystick.projections import TableProjection, TableRunner
from tallystick.store.tables import Execute
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill
from tallystick.testing.shop import PAID, PLACED, order_event

from .conftest import handles, wait_for_a_lock

Connect = Callable[..., psycopg.Connection[Any]]
Reopen = Callable[..., Store]


@pytest.fixture
def project(login: Callable[..., str]) -> Iterator[Reopen]:
    """Open the store as a login that may only run projections."""
    with handles(login("tally_projector")) as opened:
        yield opened


class OpenOrders(TableProjection):
    """Amounts by order and by customer."""

    types = (PLACED, PAID)
    tables = ("orders", "sums")

    def create(self, execute: Execute) -> None:
        execute("CREATE TABLE {orders} (stream text, seq bigint, amount bigint, PRIMARY KEY (stream, seq))")
        execute("CREATE TABLE {sums} (customer text PRIMARY KEY, amount bigint NOT NULL)")
        execute("GRANT SELECT ON {sums} TO tally_reader")

    def apply(self, execute: Any, event: Event) -> None:
        execute("INSERT INTO {orders} VALUES (%s, %s, %s)", (event.stream, event.seq, event.data["amount"]))
        add = "ON CONFLICT (customer) DO UPDATE SET amount = {sums}.amount + excluded.amount"
        values = {"customer": event.data["customer"], "amount": event.data["amount"]}
        execute("INSERT INTO {sums} VALUES (%(customer)s, %(amount)s) " + add, values)


SUMS = "SELECT customer, amount FROM {sums} ORDER BY customer"
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'tally_views' ORDER BY 1"


def expected(store: Store) -> list[tuple[str, int]]:
    """The expected sums."""
    sums: dict[str, int] = {}
    for event in store.events():
        if event.type in (PLACED, PAID) and event.data is not None:
            sums[event.data["customer"]] = sums.get(event.data["customer"], 0) + event.data["amount"]
    return sorted(sums.items())


def _tables(connect: Connect) -> list[str]:
    return [name for (name,) in connect().execute(TABLES).fetchall()]


def test_tables_follow_the_log_and_are_rebuilt(project: Reopen, connect: Connect) -> None:
    """CP-08: catch-up in batches, then a rebuild into new tables; the old ones are dropped."""
    store = project()
    fill(store)
    runner = TableRunner(store, OpenOrders(), batch_events=4)
    assert runner.catch_up() == store.head()
    assert runner.query(SUMS) == expected(store)
    fill(store, 10, first=30)
    runner.catch_up()
    assert runner.query("SELECT count(*) FROM {orders} WHERE stream LIKE 'order/%'") == [(27,)]
    runner.rebuild()
    assert runner.query(SUMS) == expected(store)
    assert _tables(connect) == ["view_OpenOrders_2_orders", "view_OpenOrders_2_sums"]


def test_a_handle_of_one_connection_is_enough(project: Reopen) -> None:
    """CP-08: a session reads the log over its own connection."""
    store = project(connections_max=1)
    fill(store)
    runner = TableRunner(store, OpenOrders(), batch_events=4)
    runner.catch_up()
    runner.rebuild()
    assert runner.query(SUMS) == expected(store)


def test_a_batch_that_fails_changes_nothing(project: Reopen) -> None:
    """CP-08: tables and checkpoint change together or not at all."""
    store = project()
    fill(store, 6)
    runner = TableRunner(store, OpenOrders())
    runner.catch_up()
    before = runner.query(SUMS)
    store.append("order/9", [order_event(PLACED), NewEvent(PLACED, {"no": "amount"})])
    with pytest.raises(errors.ProjectionFailed):
        runner.catch_up()
    assert runner.query(SUMS) == before


def test_a_statement_that_fails_names_its_event(project: Reopen) -> None:
    """CP-08: an error of PostgreSQL is the projection's failure; it names the event and leaves no trace of it."""
    store = project()

    class Narrow(OpenOrders):
        def create(self, execute: Execute) -> None:
            super().create(execute)
            execute("ALTER TABLE {orders} ADD CHECK (amount < 5)")

    fill(store)
    with pytest.raises(errors.ProjectionFailed, match="check constraint"):
        TableRunner(store, Narrow()).catch_up()
    with pytest.raises(errors.NotCaughtUp):
        TableRunner(store, Narrow()).query(SUMS)


def test_tables_of_similar_names_are_not_confused(project: Reopen, connect: Connect) -> None:
    """CP-08: dropping epoch 1 of `a` does not touch epoch 1 of `a_1`."""
    store = project()

    class First(OpenOrders):
        name = "a"

    class Second(OpenOrders):
        name = "a_1"

    fill(store)
    for projection in (First(), Second()):
        TableRunner(store, projection).catch_up()
    TableRunner(store, First()).rebuild()
    assert TableRunner(store, Second()).query(SUMS) == expected(store)
    assert [name for name in _tables(connect) if name.startswith("view_a_1_1_")] == [
        "view_a_1_1_orders",
        "view_a_1_1_sums",
    ]


def test_runners_and_rebuilds_with_concurrent_readers(project: Reopen, connect: Connect) -> None:
    """CP-08: two runners, a rebuild and a reader in different handles: no session uses a dropped table."""
    store = project()
    fill(store, 12)
    TableRunner(store, OpenOrders()).catch_up()
    stop, failures, seen = threading.Event(), [], []

    def working(work: Callable[[TableRunner], Any]) -> Callable[[], None]:
        runner = TableRunner(project(), OpenOrders(), batch_events=5)

        def until_stopped() -> None:
            try:
                while not stop.is_set():
                    work(runner)
            except BaseException as problem:
                failures.append(problem)

        return until_stopped

    def read(runner: TableRunner) -> None:
        seen.append(int(runner.query("SELECT count(*) FROM {orders}")[0][0]))

    works = [TableRunner.catch_up, TableRunner.catch_up, TableRunner.rebuild, read]
    threads = [threading.Thread(target=working(work)) for work in works]
    for thread in threads:
        thread.start()
    for number in range(12, 120, 12):
        fill(store, 12, first=number)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert seen == sorted(seen)
    runner = TableRunner(store, OpenOrders())
    runner.catch_up()
    assert runner.query(SUMS) == expected(store)
    assert len(_tables(connect)) == 2


def test_a_table_exists_as_long_as_it_is_read(project: Reopen, connect: Connect) -> None:
    """CP-08: a rebuild drops the old tables when no session that found them live uses them."""
    store = project()
    fill(store, 6)
    runner = TableRunner(store, OpenOrders())
    runner.catch_up()
    rebuilding = threading.Thread(target=TableRunner(project(), OpenOrders()).rebuild)
    with store.log.view_tables.reading() as session:
        place = session.views.place("OpenOrders")
        assert place is not None
        rebuilding.start()
        wait_for_a_lock(connect)
        assert session.execute('SELECT count(*) FROM "view_OpenOrders_1_orders"') == [(4,)]
    rebuilding.join(30)
    assert _tables(connect) == ["view_OpenOrders_2_orders", "view_OpenOrders_2_sums"]


def test_an_erased_payload_takes_the_tables_with_it(store: Store, project: Reopen) -> None:
    """Settled 25: only the projection knows where the payload went, so the tables are dropped and built again."""

    class Amounts(OpenOrders):
        def apply(self, execute: Any, event: Event) -> None:
            if event.data is not None:
                super().apply(execute, event)

    fill(store)
    runner = TableRunner(project(), Amounts())
    runner.catch_up()
    upkeep.erase(store, "order/1", 1)
    with pytest.raises(errors.NotCaughtUp):
        runner.query(SUMS)
    runner.catch_up()
    assert runner.query(SUMS) == expected(store)


def test_who_may_use_the_tables(project: Reopen, login: Callable[..., str], connect: Connect) -> None:
    """CP-10: the projector owns the tables; a reader sees what was granted; others can read, but not create."""
    store = project()

    class Fresh(OpenOrders):
        pass

    fill(store)
    TableRunner(store, OpenOrders()).catch_up()
    reader = connect("tally_reader")
    assert reader.execute('SELECT count(*) FROM tally_views."view_OpenOrders_1_sums"').fetchone() == (4,)
    for statement in (
        'SELECT * FROM tally_views."view_OpenOrders_1_orders"',
        'DELETE FROM tally_views."view_OpenOrders_1_sums"',
        "CREATE TABLE tally_views.mine (one int)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement)
    with tallystick.open(login("tally_app")) as service:
        assert TableRunner(service, OpenOrders()).query(SUMS) == expected(store)
        with pytest.raises(errors.NotPermitted, match="tally_projector"):
            TableRunner(service, Fresh()).catch_up()
    with pytest.raises(errors.ReadOnly):
        TableRunner(project(readonly=True), OpenOrders()).catch_up()
    with pytest.raises(errors.ReadOnly, match="whole log"):
        TableRunner(project(org="acme"), Fresh()).catch_up()
    assert TableRunner(project(readonly=True), OpenOrders()).query(SUMS) == expected(store)

    class Meddling(OpenOrders):
        def apply(self, execute: Any, event: Event) -> None:
            execute("DELETE FROM tally.events")

    with pytest.raises(errors.ProjectionFailed, match="permission denied"):
        TableRunner(store, Meddling()).catch_up()
