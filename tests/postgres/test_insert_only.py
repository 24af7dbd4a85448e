"""Nobody can change the log: the service's role has no right to, and triggers refuse everybody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.postgres import batches
from tallystick.store.verify import verify

Connect = Callable[..., psycopg.Connection[Any]]

VALUES = """(99, 'order/a', 9, 't', 1, gen_random_uuid(), 0, '{}', '{}', sha256(''), sha256(''), NULL, 0, NULL, NULL,
    NULL)"""
FORBIDDEN = {
    "update": "UPDATE tally.events SET payload = '{}'",
    "delete": "DELETE FROM tally.events",
    "truncate": "TRUNCATE tally.events",
    "insert": f"INSERT INTO tally.events VALUES {VALUES}",
    "insert with own position": f"INSERT INTO tally.events (position) SELECT 1 FROM (VALUES {VALUES}) AS given",
    "upsert": f"INSERT INTO tally.events VALUES {VALUES} ON CONFLICT (position) DO UPDATE SET payload = '{{}}'",
    "copy": "COPY tally.events FROM STDIN",
    "merge": "MERGE INTO tally.events USING (SELECT 1) AS one ON true WHEN MATCHED THEN DELETE",
    "lock": "LOCK TABLE tally.events IN ACCESS EXCLUSIVE MODE",
    "drop": "DROP TABLE tally.events",
    "drop schema": "DROP SCHEMA tally CASCADE",
    "alter": "ALTER TABLE tally.events ADD COLUMN more text",
    "disable trigger": "ALTER TABLE tally.events DISABLE TRIGGER ALL",
    "disable security": "ALTER TABLE tally.events DISABLE ROW LEVEL SECURITY",
    "drop index": "DROP INDEX tally.events_by_stream",
    "drop policy": "DROP POLICY owner_sees_all ON tally.events",
    "replace function": "CREATE OR REPLACE FUNCTION tally.appending() RETURNS text[] LANGUAGE sql AS 'SELECT NULL'",
    "own function": "CREATE FUNCTION tally.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "replication role": "SET session_replication_role = replica",
    "bypass": "SET ROLE tally_owner",
    "maintenance": "SET ROLE tally_maintenance",
    "session": "SET SESSION AUTHORIZATION postgres",
    "draw": "SELECT tally.draw(1)",
    "sequence": "SELECT setval('tally.positions', 1)",
    "next value": "SELECT nextval('tally.positions')",
    "move a head": "UPDATE tally.streams SET seq = 100",
    "publish": "UPDATE tally.proven SET position = 1000000",
    "identity": "UPDATE tally.store SET profile = 'run'",
    "forget a migration": "DELETE FROM tally.migrations",
    "lease": "UPDATE tally.leases SET number = 9",
    "source": "INSERT INTO tally.sources VALUES ('till', 9)",
    "infrastructure": "DELETE FROM tally.infrastructure",
}


@pytest.mark.parametrize("role", ["tally_app", "tally_reader"])
@pytest.mark.parametrize("statement", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_the_roles_that_use_a_store_cannot_change_it(
    store: Store, login: Callable[[str], str], role: str, statement: str
) -> None:
    """CP-01: the service's role and a reader's can do nothing but call the appending functions."""
    store.append("order/a", NewEvent("thing.done", {}))
    before = store.read().events
    with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(login(role)) as connection:
        connection.execute(statement)
    assert store.read().events == before
    assert verify(store.log).ok


FORGED_PLACES: dict[str, Callable[[list[Any], list[int]], tuple[list[Any], list[int]]]] = {
    "behind those drawn": lambda rows, places: (rows, [place + 1 for place in places]),
    "before those drawn": lambda rows, places: (rows, [place - 3 for place in places]),
    "twice": lambda rows, places: (rows, [1] * len(places)),
    "with a gap": lambda rows, places: (rows, [1, 2, 3, 5]),
    "streams apart": lambda rows, places: ([rows[at] for at in (0, 2, 1, 3)], [places[at] for at in (0, 2, 1, 3)]),
    "seqs the other way round": lambda rows, places: (rows[::-1], places[::-1]),
}


@pytest.mark.parametrize("forgery", FORGED_PLACES.values(), ids=FORGED_PLACES.keys())
def test_a_batch_has_the_positions_that_were_drawn_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, forgery: Callable[..., tuple[list[Any], list[int]]]
) -> None:
    """CP-01, CP-05: a caller of the writing function cannot choose positions or leave the order of a stream."""
    one, two = ([NewEvent("thing.done", {"n": number}) for number in range(2)] for _ in range(2))
    parts = [("order/a", one[:1], -1), ("order/b", two[:1], -1), ("order/a", one[1:], -1), ("order/b", two[1:], -1)]
    by_stream = batches._by_stream
    with monkeypatch.context() as patched:
        patched.setattr(batches, "_by_stream", lambda *given: forgery(*by_stream(*given)))
        with pytest.raises(errors.TallyError):
            store.append_all(parts)
    assert store.read().events == []
    done = store.append_all(parts)
    assert [(event.stream, event.seq) for event in store.read().events] == [
        ("order/a", 1),
        ("order/b", 1),
        ("order/a", 2),
        ("order/b", 2),
    ]
    assert [item.first_position for item in done] == [event.position for event in store.read().events]
    assert verify(store.log).ok


@pytest.mark.parametrize(
    "function",
    [
        "append_event",
        "begin_append",
        "write_batch",
        "write_stream",
        "append_batch",
        "put_lease",
        "move_sources",
        "advance",
    ],
)
def test_a_tenant_cannot_append(store: Store, connect: Connect, function: str) -> None:
    """CP-10: only trusted services append: a reader's role may not execute any function that writes."""
    found = connect().execute(
        "SELECT bool_or(has_function_privilege('tally_reader', oid, 'EXECUTE')),"
        " bool_and(has_function_privilege('tally_app', oid, 'EXECUTE')) FROM pg_proc"
        " WHERE proname = %s AND pronamespace = 'tally'::regnamespace",
        (function,),
    )
    assert found.fetchone() == (False, True)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tally.events SET payload = NULL",
        "UPDATE tally.events SET type = 'other'",
        "DELETE FROM tally.events",
        "TRUNCATE tally.events",
        "DELETE FROM tally.streams",
        "UPDATE tally.streams SET seq = seq",
        "UPDATE tally.streams SET org = 'bolt', seq = seq + 1",
        "UPDATE tally.store SET profile = 'run'",
    ],
)
@pytest.mark.parametrize("role", ["tally_owner", None], ids=["owner", "superuser"])
def test_triggers_refuse_change_to_everybody(store: Store, connect: Connect, role: str | None, statement: str) -> None:
    """CP-01: the triggers hold for a role with every right, also while replication is being applied."""
    store.append("order/a", NewEvent("thing.done", {}, meta={"org": "acme"}))
    connection = connect()
    for mode in ("origin", "replica"):
        connection.execute("SELECT set_config('session_replication_role', %s, false)", (mode,))
        if role is not None:
            connection.execute("SET ROLE tally_owner")
        with pytest.raises(psycopg.Error, match=r"only grows|immutable"):
            connection.execute(statement)
        connection.execute("RESET ROLE")
    assert verify(store.log).ok


FORGERIES = {
    "payload": "UPDATE tally.events SET payload = '{\"n\":7}' WHERE seq = 2",
    "payload and checksum": "UPDATE tally.events SET payload = '{}', checksum = sha256('{}') WHERE seq = 2",
    "type": "UPDATE tally.events SET type = 'other' WHERE seq = 2",
    "time": "UPDATE tally.events SET time = 7 WHERE seq = 2",
    "meta": 'UPDATE tally.events SET meta = \'{"org":"bolt"}\' WHERE seq = 2',
    "org": "UPDATE tally.events SET org = 'bolt' WHERE seq = 2",
    "deleted": "DELETE FROM tally.events WHERE seq = 2",
    "deleted at the end": "DELETE FROM tally.events WHERE seq = 3",
    "added": """INSERT INTO tally.events SELECT position + 1, stream, seq + 1, type, version, gen_random_uuid(), time,
        payload, meta, checksum, link, signature, recorded FROM tally.events WHERE seq = 3""",
    "swapped": """UPDATE tally.events AS one SET payload = other.payload, checksum = other.checksum
        FROM tally.events AS other WHERE one.seq = 2 AND other.seq = 3""",
    "head": "UPDATE tally.streams SET link = sha256('x')",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_row_is_found(store: Store, connect: Connect, forgery: str) -> None:
    """CP-01: verify finds and names what a superuser changes with the triggers off."""
    for number in range(3):
        store.append("order/a", NewEvent("thing.done", {"n": number}))
    assert verify(store.log).ok
    connection = connect()
    for table in ("events", "streams"):
        connection.execute(f"ALTER TABLE tally.{table} DISABLE TRIGGER ALL")
    connection.execute(forgery)
    for table in ("events", "streams"):
        connection.execute(f"ALTER TABLE tally.{table} ENABLE TRIGGER USER")
    problems = verify(store.log).problems
    assert [problem for problem in problems if problem.stream == "order/a"]


def test_a_missing_protection_is_found(store: Store, connect: Connect) -> None:
    """CP-01: verify names a trigger that is off, an extra right, and row security that is not forced."""
    connection = connect()
    for statement in (
        "ALTER TABLE tally.events DISABLE TRIGGER events_are_not_changed",
        "GRANT UPDATE ON tally.events TO tally_app",
        "ALTER TABLE tally.streams NO FORCE ROW LEVEL SECURITY",
        "DROP INDEX tally.events_by_type",
        "ALTER SEQUENCE tally.positions CACHE 10",
    ):
        before = {problem.reason for problem in verify(store.log).problems}
        connection.execute(statement)
        assert len({problem.reason for problem in verify(store.log).problems} - before) == 1


def test_a_role_with_the_services_rights_can_do_its_work(store: Store, login: Callable[[str], str]) -> None:
    """CP-01: a login that was granted tally_app opens, appends, reads, follows and keeps checkpoints."""
    with tallystick.open(login("tally_app")) as service:
        service.append("order/a", [NewEvent("thing.done", {"n": number}) for number in range(3)], expected=0)
        service.append("order/a", NewEvent("thing.done", {}), expected=3)
        service.save_checkpoint("me", 4)
        assert len(service.read().events) == 4
        assert verify(service.log).ok
    assert store.load_checkpoint("me") == 4


def test_a_role_without_rights_learns_what_to_grant(store: Store, url: str, login: Callable[[str], str]) -> None:
    """CP-01: a login without our roles gets an error that says what to grant."""
    with pytest.raises(errors.NotPermitted) as refused:
        tallystick.open(login("pg_monitor"))
    assert "tally_app" in refused.value.next_step
    with pytest.raises(errors.NotPermitted):
        tallystick.open(login("tally_reader"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ALTER SEQUENCE tally.positions CACHE 5", "CACHE 5"),
        ("ALTER ROLE tally_app BYPASSRLS", "row-level security"),
        ("ALTER DATABASE {} SET synchronous_commit = off", "synchronous_commit"),
    ],
)
def test_a_server_that_could_break_a_promise_is_refused(
    url: str, store: Store, connect: Connect, change: str, reason: str
) -> None:
    """CP-04, CP-10, LH-07: opening fails with a cached sequence, a role past row security, or unsynced commits."""
    connection = connect()
    name = connection.info.dbname
    connection.execute(change.format(name))  # type: ignore[arg-type]
    try:
        with pytest.raises(errors.UnsafeServer, match=reason):
            tallystick.open(url)
    finally:
        connection.execute("ALTER ROLE tally_app NOBYPASSRLS")


@pytest.mark.parametrize(
    "unsafe", ["SET LOCAL synchronous_commit = off", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"]
)
def test_an_append_refuses_a_transaction_that_is_not_safe(store: Store, connect: Connect, unsafe: str) -> None:
    """CP-04, LH-07: the function itself checks the transaction in which it is called."""
    connection = connect("tally_app", autocommit=False)
    connection.execute(unsafe)
    values = "'order/a', -1, 't', 1, gen_random_uuid(), 0, '{}', '{}', NULL, 0, false, NULL, NULL"
    with pytest.raises(psycopg.Error, match="appends need"):
        connection.execute(f"SELECT tally.append_event({values})")
