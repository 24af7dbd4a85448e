"""Rows of projections and dead letters in PostgreSQL: what is specific to this engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest

from tallystick import NewEvent, Store, errors
from tallystick.projections import Consumer, Live, ViewReader, rebuild
from tallystick.store import row_checks
from tallystick.store.side_check import side_problems
from tallystick.store.views import Definition, Place, ViewRow
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill, folded, stored
from tallystick.testing.shop import PLACED, CustomerBalance, OrderTotals, order_event

from .conftest import wait_for_a_lock
from .older import make_older

Connect = Callable[..., psycopg.Connection[Any]]
Reopen = Callable[..., Store]

DEFINITION = Definition(kind="rows", version=1, key="stream", order="position", types=["a"], upcasters="").text


def _begun(store: Store, epoch: int = 1, *, live: bool = True) -> Place:
    place = Place(projection="p", epoch=epoch, live=live, definition=DEFINITION, store_id=store.log.store_id)
    store.log.views.begin(place)
    return place


def _of_acme(amount: int) -> NewEvent:
    return NewEvent(PLACED, {"customer": "c", "amount": amount}, meta={"org": "acme"})


def _at(place: Place, position: int) -> Place:
    return msgspec.structs.replace(place, position=position)


def _move(connection: psycopg.Connection[Any], place: Place) -> None:
    check = row_checks.of_place(place)
    connection.execute("UPDATE tally.views SET position = %s, checksum = %s", (place.position, check))


# --- who may do what -------------------------------------------------------------------------------------------------

KEPT = ("tally.views", "tally.view_rows", "tally.dead_letters")


@pytest.mark.parametrize("table", KEPT)
def test_the_service_keeps_rows_and_the_reader_reads_them(store: Store, connect: Connect, table: str) -> None:
    """CP-10: the service's role writes rows and letters; the reader's role can only read them."""
    fill(store, 3)
    Live(store, OrderTotals()).catch_up()
    Consumer(store, "mailer", _refuse, attempts=1).catch_up()
    reader = connect("tally_reader")
    (count,) = reader.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    assert count > 0
    for statement in (f"DELETE FROM {table}", f"INSERT INTO {table} DEFAULT VALUES", f"TRUNCATE {table}"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect("tally_app").execute(f"TRUNCATE {table}")


def _refuse(event: Any) -> None:
    raise ValueError("no")


def test_a_tenant_sees_no_rows(store: Store, reopen: Reopen, connect: Connect) -> None:
    """CP-10: nobody knows which org a row or a letter belongs to, so a session with an org sees none."""
    store.append("order/1", _of_acme(1))
    Live(store, OrderTotals()).catch_up()
    Consumer(store, "mailer", _refuse, attempts=1).catch_up()
    for log in (reopen(readonly=True, org="acme").log, store.log.for_tenant("acme")):  # type: ignore[attr-defined]
        assert log.read().events
        assert (log.views.places(), log.views.place("OrderTotals")) == ([], None)
        assert log.views.rows("OrderTotals", epoch=1).rows == []
        assert log.dead_letters.letters(limit=100) == []
    reader = connect("tally_reader")
    assert reader.execute("SELECT key FROM tally.live_rows").fetchall() == [("order/1",)]
    reader.execute("SELECT set_config('tally.org', 'acme', false)")
    assert reader.execute("SELECT key FROM tally.live_rows").fetchall() == []


def test_a_handle_for_one_org_keeps_no_rows(store: Store, reopen: Reopen) -> None:
    """CP-08: a handle for one org cannot keep rows, because it sees a part of the log; its erasures reach all rows."""
    for number in range(3):
        store.append("order/1", _of_acme(number))
    Live(store, OrderTotals()).catch_up()
    handle = reopen(org="acme")
    with pytest.raises(errors.ReadOnly, match="whole log"):
        Live(handle, CustomerBalance()).catch_up()
    place = store.log.views.place("OrderTotals")
    assert place is not None
    with pytest.raises(errors.ReadOnly, match="whole log"):
        handle.log.views.write(place, [], previous=place.position)
    handle.log.views.drop("OrderTotals", ["order/1"])
    assert store.log.views.dropped("OrderTotals", 1, limit=9) == ["order/1"]


def test_a_handle_for_reading_keeps_nothing(store: Store, reopen: Reopen) -> None:
    """CP-10: a handle that was opened for reading writes neither rows nor letters, and reads both."""
    fill(store, 3)
    Live(store, OrderTotals()).catch_up()
    reading = reopen(readonly=True)
    assert stored(reading, OrderTotals()) == folded(store, OrderTotals())
    with pytest.raises(errors.ReadOnly):
        Live(reading, CustomerBalance()).catch_up()
    with pytest.raises(errors.ReadOnly):
        Consumer(reading, "mailer", _refuse, attempts=1).catch_up()
    with pytest.raises(errors.ReadOnly):
        reading.log.views.discard("OrderTotals", 1, limit=1, live=True)


# --- what is shown and held ------------------------------------------------------------------------------------------


def test_live_rows_are_shown_as_json(store: Store, connect: Connect) -> None:
    """CP-08: a user of SQL sees keys and states of the live epoch, without dropped ones."""
    for customer in ("a", "b"):
        store.append("order/1", order_event(PLACED, customer=customer, amount=1))
    rebuild(store, CustomerBalance())
    store.log.views.drop("CustomerBalance", ["a"])
    _begun(store)
    asked = "SELECT projection, key, state ->> 'open' FROM tally.live_rows"
    assert connect("tally_app").execute(asked).fetchall() == [("CustomerBalance", "b", "1")]


def test_a_reason_of_any_characters_is_parked(store: Store) -> None:
    """CP-07: an error of a handler cannot stop its consumer, whatever its text is."""
    fill(store, 2)

    def raising(event: Any) -> None:
        raise ValueError("\x00 \ud800 ü")

    assert Consumer(store, "mailer", raising, attempts=1).catch_up() == store.head()
    assert {letter.reason for letter in store.log.dead_letters.letters(limit=100)} == {"ValueError: \\x00 \\ud800 ü"}


# --- races -----------------------------------------------------------------------------------------------------------


def _after_waiting(connect: Connect, holding: psycopg.Connection[Any], work: Callable[[], object]) -> None:
    """Start `work`, commit the open transaction as soon as `work` waits for it, and raise what `work` raises."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        wait_for_a_lock(connect)
        holding.commit()
        working.result(30)


def test_a_write_that_waited_compares_again(store: Store, connect: Connect) -> None:
    """CP-08: of two writes of one batch, the second begun before the first was committed, one happens."""
    place = _begun(store)
    first = connect("tally_app", autocommit=False)
    _move(first, _at(place, 5))
    with pytest.raises(errors.ViewMoved):
        _after_waiting(connect, first, lambda: store.log.views.write(_at(place, 9), [ViewRow("a", b"{}")], previous=0))
    assert (store.log.views.rows("p").rows, store.log.views.place("p")) == ([], _at(place, 5))


def test_a_drop_reaches_the_write_it_waited_for(store: Store, connect: Connect) -> None:
    """Settled 25: a row that was not yet committed when the drop began does not survive it."""
    place = _begun(store)
    writer = connect("tally_app", autocommit=False)
    _move(writer, _at(place, 5))
    writer.execute("INSERT INTO tally.view_rows SELECT number, 'a', false, '{}', '', NULL FROM tally.views")
    _after_waiting(connect, writer, lambda: store.log.views.drop("p", ["a"]))
    assert store.log.views.rows("p", keys=["a"]).rows == [ViewRow("a", None)]


def test_a_discard_reaches_the_write_it_waited_for(store: Store, connect: Connect) -> None:
    """CP-08: no row outlives its epoch, not even one that was being written when the epoch was closed."""
    _begun(store, live=False)
    writer = connect("tally_app", autocommit=False)
    writer.execute("UPDATE tally.views SET position = 5")
    writer.execute("INSERT INTO tally.view_rows SELECT number, 'a', false, '{}', '' FROM tally.views")
    _after_waiting(connect, writer, lambda: store.log.views.discard("p", 1, limit=9))
    assert connect().execute("SELECT count(*) FROM tally.view_rows").fetchone() == (0,)


def test_a_task_that_waited_for_a_move_fills_no_batch(store: Store, connect: Connect) -> None:
    """PIPE-07: a late task finds that the place has moved, even by a transaction that was in progress."""
    place = _begun(store)
    mover = connect("tally_app", autocommit=False)
    _move(mover, _at(place, 5))
    with pytest.raises(errors.ViewMoved):
        _after_waiting(connect, mover, lambda: store.log.views.fill_batch(place, b"late", [ViewRow("a", b"{}")]))
    assert connect().execute("SELECT count(*) FROM tally.batch_rows").fetchone() == (0,)


def test_a_drop_reaches_the_batch_it_waited_for(store: Store, connect: Connect) -> None:
    """PIPE-07: rows that a task was writing during an erasure do not stay in the batch."""
    _begun(store)
    filling = connect("tally_app", autocommit=False)
    filling.execute("SELECT number FROM tally.views FOR SHARE")
    filling.execute("INSERT INTO tally.batch_rows SELECT number, 'one', 'a', '{}', '', NULL FROM tally.views")
    _after_waiting(connect, filling, lambda: store.log.views.drop("p", ["a"]))
    assert connect().execute("SELECT count(*) FROM tally.batch_rows").fetchone() == (0,)


def test_nobody_but_the_service_sees_a_batch(store: Store, connect: Connect) -> None:
    """CP-10: the reader's role sees the rows of a batch once it is written."""
    store.log.views.fill_batch(_begun(store), b"one", [ViewRow("a", b"{}")])
    assert connect("tally_app").execute("SELECT count(*) FROM tally.batch_rows").fetchone() == (1,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect("tally_reader").execute("SELECT * FROM tally.batch_rows")


def test_a_switch_that_races_another_is_refused(store: Store, connect: Connect) -> None:
    """CP-08: of two epochs that find none live, one becomes live."""
    _begun(store, 1, live=False)
    other = connect("tally_app", autocommit=False)
    other.execute(
        "INSERT INTO tally.views (projection, epoch, live, definition, store_id, position, link_position, link, drops)"
        " SELECT projection, 2, true, definition, store_id, 0, 0, '', 0 FROM tally.views"
    )
    with pytest.raises(errors.ViewMoved):
        _after_waiting(connect, other, lambda: store.log.views.switch("p", 1, over=None))


# --- statements and sizes --------------------------------------------------------------------------------------------


def test_a_batch_is_few_statements(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-13: a batch is a few statements for any number of rows; proving the head may take some more."""
    executed: list[Any] = []
    original = psycopg.Connection.execute

    def counted(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        executed.append(query)
        return original(self, query, *given, **options)

    counts = []
    for size in (1, 10, 400):  # the first begins the stream: no event before it has to be looked at
        store.append("order/x", [order_event(PLACED, customer=f"{size}-{n}") for n in range(size)])
        runner = Live(store, CustomerBalance())
        runner.place()
        executed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", counted)
            runner.step()
        counts.append(len(executed))
    assert max(counts) <= 12
    assert len(stored(store, CustomerBalance())) == 411


def test_states_are_updated_in_place(store: Store, connect: Connect) -> None:
    """CP-13: an updated state needs no new index entry."""
    for _ in range(20):
        store.append("order/1", order_event(PLACED, amount=1))
        Live(store, OrderTotals()).catch_up()
    store.close()
    statement = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE relname = 'view_rows'"
    deadline = time.monotonic() + 30
    while (found := connect().execute(statement).fetchone() or (0, 0))[0] < 19 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == (19, 19)


def test_rows_follow_through_a_restart_of_connections(store: Store, connect: Connect) -> None:
    """CP-08: a runner whose connections were cut between two batches continues."""
    fill(store, 9)
    runner = Live(store, OrderTotals(), batch_events=3)
    runner.step()
    connect().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    runner.catch_up()
    assert stored(store, OrderTotals()) == folded(store, OrderTotals())


def test_an_erasure_by_the_maintaining_role_reaches_rows(store: Store) -> None:
    """Settled 25: the handle that erases drops rows and letters in every epoch."""
    fill(store, 12)
    Live(store, OrderTotals()).catch_up()
    rebuild(store, CustomerBalance())
    upkeep.erase(store, "order/1", 1)
    assert "order/1" not in stored(store, OrderTotals())
    for projection in (OrderTotals(), CustomerBalance()):
        Live(store, projection).catch_up()
        assert stored(store, projection) == folded(store, projection)


def test_a_long_name_and_a_long_key_are_kept(store: Store) -> None:
    """CP-08: names of 500 characters and keys of 2,000 bytes fit the indexes."""

    class Long(CustomerBalance):
        name = "é" * 500

    keys = ["".join(chr(0x10000 + (n * 7919 + at * 104729) % 0xFFFF) for at in range(500)) for n in range(3)]
    for key in keys:
        store.append("order/1", NewEvent(PLACED, {"customer": key, "amount": 1}))
    Live(store, Long()).catch_up()
    assert {key for key, _ in ViewReader(store, "é" * 500).items()} == set(keys)


def test_rows_are_kept_by_a_migration(store: Store, reopen: Reopen, connect: Connect) -> None:
    """CP-12, SAFE-01: rows, places and checkpoints of an older format are served after the upgrade."""
    fill(store, 8)
    Live(store, CustomerBalance()).catch_up()
    store.save_checkpoint("mailer", 3)
    rows = dict(ViewReader(store, CustomerBalance().name).items())
    store.close()
    make_older(connect())
    migrated = reopen()
    assert side_problems(migrated.log) == []
    assert dict(ViewReader(migrated, CustomerBalance().name).items()) == rows
    assert migrated.load_checkpoint("mailer") == 3
    fill(migrated, 3)
    Live(migrated, CustomerBalance()).catch_up()
    assert stored(migrated, CustomerBalance()) == folded(migrated, CustomerBalance())
