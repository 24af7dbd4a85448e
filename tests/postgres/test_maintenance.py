"""Maintenance: what prunes, erases, drops and forgets, and which roles cannot."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.store import facts
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events

Connect = Callable[..., psycopg.Connection[Any]]
KEY = CommandKey("acme", "u1", "POST /orders", "k1")
TABLES = ("cuts", "pruned", "erasures", "snapshots", "commands", "command_ranges")


@pytest.fixture
def maintained(store: Store) -> Store:
    """A store in which each kind of maintenance has happened: `order/a` has lost seq 1 and 2, and the payload of 3."""
    command = CommandRecord(KEY, b"h" * 32, b"{}", 1)
    store.submit([Request([Part("order/a", events(1, meta={"org": "acme"}))], command=command)])
    store.append("order/a", events(3))
    upkeep.prune(store, "order/a", 2)
    upkeep.erase(store, "order/a", 3)
    upkeep.snapshot(store, "order/a")
    return store


# --- who may not -----------------------------------------------------------------------------------------------------


def _calls() -> Iterator[str]:
    for table in TABLES:
        yield f"INSERT INTO tally.{table} OVERRIDING SYSTEM VALUE SELECT * FROM tally.{table}"
        yield f"UPDATE tally.{table} SET org = 'evil'"
        yield f"DELETE FROM tally.{table}"
        yield f"TRUNCATE tally.{table}"
    yield "SELECT tally.prune('order/a', 4, sha256(''), 1, 9, 4, 'acme', gen_random_uuid())"
    yield "SELECT tally.erase(4, 'order/a', 4, sha256(''), gen_random_uuid())"
    yield "SELECT tally.drop_snapshots('{}', '{}')"
    yield "SELECT tally.forget(ARRAY[1])"
    yield "SELECT tally.erase_responses('{}', '{}', '{}', '{}')"
    yield "SELECT tally.forget_commands_before(99, 99)"
    yield "SET ROLE tally_maintenance"


@pytest.mark.parametrize("role", ["tally_app", "tally_reader"])
def test_the_roles_that_use_a_store_cannot_maintain_it(maintained: Store, login: Callable[..., str], role: str) -> None:
    """CP-01, settled 18: it may not change, empty or delete what maintenance keeps, or call a function that does."""
    with psycopg.connect(login(role), autocommit=True) as connection:
        for statement in _calls():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)  # type: ignore[arg-type]
    assert verify(maintained.log).problems == []


def test_the_maintenance_role_goes_through_the_functions(maintained: Store, connect: Connect) -> None:
    """CP-01, settled 18: the maintenance role has no right to change a table directly, not even the events."""
    connection = connect("tally_maintenance")
    for table in ("events", *TABLES):
        for statement in (f"UPDATE tally.{table} SET org = NULL", f"DELETE FROM tally.{table}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("UPDATE tally.events SET payload = NULL")


REFUSED = {
    "delete behind the cut": "DELETE FROM tally.events WHERE seq = 4",
    "delete of a fact": "DELETE FROM tally.events WHERE type = 'tally.pruned'",
    "erase without an erasure": "UPDATE tally.events SET payload = NULL WHERE seq = 4",
    "erase a fact": "UPDATE tally.events SET payload = NULL WHERE type = 'tally.pruned'",
    "fill what was erased": "UPDATE tally.events SET payload = '{}' WHERE seq = 3 AND payload IS NULL",
    "another cut": """INSERT INTO tally.cuts SELECT stream, 4, link, first_position, 5, 4, org, fact_position
        FROM tally.cuts""",
    "a longer cut": "UPDATE tally.cuts SET through = 4, count = 4",
    "no cut": "DELETE FROM tally.cuts",
    "cuts emptied": "TRUNCATE tally.cuts",
    "forget what was pruned": "DELETE FROM tally.pruned",
    "rename what was pruned": "UPDATE tally.pruned SET id = gen_random_uuid()",
    "pruned emptied": "TRUNCATE tally.pruned",
    "another erasure": """INSERT INTO tally.erasures
        SELECT e.position, e.stream, e.seq, e.checksum, 'acme', x.fact_position
        FROM tally.events AS e, tally.erasures AS x WHERE e.seq = 4""",
    "no erasure": "DELETE FROM tally.erasures",
    "erasures emptied": "TRUNCATE tally.erasures",
    "another body": "UPDATE tally.snapshots SET body = '{}'",
    "a body without a fact": """INSERT INTO tally.snapshots SELECT gen_random_uuid(), stream, seq, position, link,
        reducer, reducer_version, upcasters, kind, base, state_hash, made, org, body FROM tally.snapshots""",
    "snapshots emptied": "TRUNCATE tally.snapshots",
    "another answer": "UPDATE tally.commands SET response = '{}'",
    "commands emptied": "TRUNCATE tally.commands",
}


@pytest.mark.parametrize("role", ["tally_owner", None], ids=["owner", "superuser"])
def test_triggers_refuse_to_everybody_what_no_fact_names(maintained: Store, connect: Connect, role: str | None) -> None:
    """CP-01, EVT-14: the triggers hold for a role with every right, also while replication is being applied."""
    connection = connect()
    for mode in ("origin", "replica"):
        connection.execute("SELECT set_config('session_replication_role', %s, false)", (mode,))
        if role is not None:
            connection.execute("SET ROLE tally_owner")
        for statement in REFUSED.values():
            with pytest.raises(psycopg.Error, match=r"only grows|immutable|refused"):
                connection.execute(statement)
        connection.execute("RESET ROLE")
    assert verify(maintained.log).problems == []


def _call_of(store: Store, connection: psycopg.Connection[Any], kind: str) -> Callable[[], None]:
    """A call of a maintenance function on this connection, with the newest fact of its kind."""
    cut, erasure = upkeep.cut_of(store, "order/a", 2), upkeep.erasure_of(store.read_stream("order/a")[0])
    newest = "(SELECT id FROM tally.events WHERE type = %s ORDER BY position DESC LIMIT 1)"
    if kind == "prune":
        values = (*msgspec.structs.astuple(cut), facts.PRUNED)
        query = f"SELECT tally.prune(%s, %s, %s, %s, %s, %s, %s, {newest})"
    else:
        values = (erasure.position, erasure.stream, erasure.seq, erasure.checksum, facts.ERASED)
        query = f"SELECT tally.erase(%s, %s, %s, %s, {newest})"
    return lambda: connection.execute(query, values) and None  # type: ignore[arg-type,func-returns-value]


def _append_fact(store: Store, connection: psycopg.Connection[Any], kind: str) -> None:
    cut, erasure = upkeep.cut_of(store, "order/a", 2), upkeep.erasure_of(store.read_stream("order/a")[0])
    stream, new = upkeep.pruned_fact(cut) if kind == "prune" else upkeep.erased_fact(erasure)
    connection.execute(
        "SELECT tally.append_event(%s, -1, %s, 1, gen_random_uuid(), 0, %s, '{}', NULL, 0, false, NULL, NULL)",
        (stream, new.type, tallystick.event.canonical.encode(new.payload).decode()),
    )


@pytest.mark.parametrize("kind", ["prune", "erase"])
def test_a_fact_counts_only_in_its_own_transaction(store: Store, connect: Connect, kind: str) -> None:
    """Settled 18: the same call is refused with an older fact or one from a savepoint, and allowed with its own."""
    store.append("order/a", events(3))
    connection = connect("tally_maintenance", autocommit=False)
    call = _call_of(store, connection, kind)
    _append_fact(store, connection, kind)
    connection.commit()
    with pytest.raises(psycopg.Error, match="no control fact of the same transaction"):
        call()
    connection.rollback()
    connection.execute("SAVEPOINT inside")
    _append_fact(store, connection, kind)
    with pytest.raises(psycopg.Error, match="no control fact of the same transaction"):
        call()
    connection.rollback()
    assert [found.payload is None for found in store.read_stream("order/a")] == [False] * 3
    _append_fact(store, connection, kind)
    call()
    connection.commit()
    assert (store.cut("order/a") is not None) == (kind == "prune")
    assert sum(found.payload is None for found in store.read_stream("order/a", after=2 if kind == "prune" else 0)) == (
        kind == "erase"
    )


def test_a_login_without_the_maintenance_role_appends_and_snapshots(
    store: Store, login: Callable[..., str], connect: Connect
) -> None:
    """CP-01, settled 18: with tally_control a login can keep snapshots; the rest is refused by name."""
    with tallystick.open(login("tally_app")) as service:
        service.append("order/a", events(4))
        with pytest.raises(errors.NotPermitted, match="tally_control"):
            upkeep.snapshot(service, "order/a")
    url = login("tally_app", "tally_control")
    with tallystick.open(url) as service:
        made = upkeep.snapshot(service, "order/a")
        for refused in (
            lambda: upkeep.prune(service, "order/a", 1),
            lambda: upkeep.erase(service, "order/a", 1),
            lambda: upkeep.drop(service, made),
            lambda: service.log.commands.forget(before=1, limit=1),
        ):
            with pytest.raises(errors.NotPermitted, match="tally_maintenance"):
                refused()
        reclaimed = service.log.reclaim(compress_before=None, progress=lambda done: None)
        assert "not a member of tally_maintenance" in reclaimed.done[0]
        name = service.log._connections.rows("find_roles")[0][0]  # type: ignore[attr-defined]
    connect().execute(f'GRANT tally_maintenance TO "{name}"')  # type: ignore[arg-type]
    with tallystick.open(url) as operator:
        upkeep.prune(operator, "order/a", 1)
        upkeep.erase(operator, "order/a", 2)
        upkeep.drop(operator, made)
        assert operator.log.commands.forget(before=1, limit=1) == 0
        reclaimed = operator.log.reclaim(compress_before=None, progress=lambda done: None)
        assert ("vacuumed" if may_vacuum(connect) else "only table or database owner") in reclaimed.done[0]
        assert operator.report().facts["role"] == "tally_app"
        assert verify(operator.log).problems == []


# --- what verification finds -----------------------------------------------------------------------------------------

FORGERIES = {
    "a cut taken away": ("cuts", "DELETE FROM tally.cuts", "cut"),
    "a cut moved": ("cuts", "UPDATE tally.cuts SET through = 3, count = 3", "cut"),
    "an id forgotten": ("pruned", "DELETE FROM tally.pruned WHERE position = 1", "cut"),
    "an id recorded again": (
        "pruned",
        "UPDATE tally.pruned SET id = (SELECT id FROM tally.events WHERE seq = 4) WHERE position = 1",
        "cut",
    ),
    "an erasure taken away": ("erasures", "DELETE FROM tally.erasures", "erasure"),
    "a payload taken away": ("events", "UPDATE tally.events SET payload = NULL WHERE seq = 4", "erasure"),
    "a payload put back": ("events", "UPDATE tally.events SET payload = '{\"n\":2}' WHERE seq = 3", "erasure"),
    "another body": ("snapshots", "UPDATE tally.snapshots SET body = '{}'", "snapshot"),
    "a body taken away": ("snapshots", "DELETE FROM tally.snapshots", "snapshot"),
}


@pytest.mark.parametrize(("table", "forgery", "what"), FORGERIES.values(), ids=FORGERIES.keys())
def test_forged_maintenance_is_found(maintained: Store, connect: Connect, table: str, forgery: str, what: str) -> None:
    """CP-01, PIPE-03: verify finds and names what a superuser changes with the triggers off."""
    assert verify(maintained.log).problems == []
    connection = connect()
    connection.execute(f"ALTER TABLE tally.{table} DISABLE TRIGGER ALL")  # type: ignore[arg-type]
    connection.execute(forgery)  # type: ignore[arg-type]
    connection.execute(f"ALTER TABLE tally.{table} ENABLE TRIGGER USER")  # type: ignore[arg-type]
    assert what in {problem.what for problem in verify(maintained.log).problems}


def test_a_missing_protection_of_maintenance_is_found(store: Store, connect: Connect) -> None:
    """CP-01: verify names a trigger that is off, an extra right, and row security that is not forced."""
    connection = connect()
    for statement in (
        "ALTER TABLE tally.cuts DISABLE TRIGGER cuts_are_named_by_facts",
        "GRANT DELETE ON tally.events TO tally_maintenance",
        "GRANT EXECUTE ON FUNCTION tally.prune TO tally_app",
        "ALTER TABLE tally.commands NO FORCE ROW LEVEL SECURITY",
    ):
        before = {problem.reason for problem in verify(store.log).problems}
        connection.execute(statement)  # type: ignore[arg-type]
        assert len({problem.reason for problem in verify(store.log).problems} - before) == 1


# --- concurrent readers ----------------------------------------------------------------------------------------------


def test_a_page_is_whole_or_refused_while_its_stream_is_pruned(store: Store, reopen: Callable[..., Store]) -> None:
    """EVT-03, CP-04: during a prune a reader gets a page from its beginning, or an error that says what is gone."""
    store.append("order/a", events(400))
    reader, started = reopen(), threading.Event()
    ways = (lambda: reader.read(limit=50).events, lambda: reader.read_stream("order/a", limit=50))
    seen: list[list[list[int]]] = [[], []]
    whole = list(range(1, 51))

    def follow(way: int) -> None:
        with contextlib.suppress(errors.HistoryPruned):
            while all(page == whole for page in seen[way][-1:]):
                seen[way].append([found.seq for found in ways[way]()])
                started.set()

    threads = [threading.Thread(target=follow, args=(way,)) for way in range(len(ways))]
    for thread in threads:
        thread.start()
    started.wait()
    for through in (100, 250, 400):
        upkeep.prune(store, "order/a", through)
    for thread in threads:
        thread.join()
    assert all(page == whole for pages in seen for page in pages)
    assert [found.type for found in reader.read(over_pruned=True).events] == [facts.PRUNED] * 3
    assert reader.head() == store.head() >= store.floor()


def test_the_head_does_not_go_back_with_the_last_events(reopen: Callable[..., Store]) -> None:
    """CP-04: the fact comes after what it prunes, so a new handle proves the same head."""
    store = reopen()
    done = store.append("order/a", events(5))
    upkeep.prune(store, "order/a", 5)
    other = reopen()
    assert other.head() == store.head() > done.last_position
    assert other.append("order/a", NewEvent("thing.done", {}), expected=5).position > store.floor()


def test_facts_of_the_operator(maintained: Store) -> None:
    """EVT-13: the report has the number of pruned, erased and kept items, and the size of the log."""
    shown = maintained.report().facts
    wanted = {"floor": 2, "erasures": 1, "snapshots": 1, "commands": 1}
    assert {name: shown[name] for name in wanted} == wanted
    assert shown["log_bytes"] > 0


def test_a_cut_that_does_not_fit_the_log_is_refused_whole(store: Store) -> None:
    """Settled 18: a cut whose link is not that of its last event changes nothing, though a fact names it."""
    store.append("order/a", events(3))
    wrong = msgspec.structs.replace(upkeep.cut_of(store, "order/a", 2), link=b"x" * 32)
    head = store.head()
    with pytest.raises(errors.PruneRefused, match="there is no such event"):
        store.record([upkeep.pruned_fact(wrong)], maintenance=Maintenance(cuts=(wrong,)))
    assert (store.head(), store.cut("order/a"), len(store.read().events)) == (head, None, 3)


def test_an_erasure_that_does_not_fit_the_log_is_refused_whole(store: Store) -> None:
    """Settled 18: an erasure at another position than its event's changes nothing, though a fact names it."""
    store.append("order/a", events(3))
    wrong = msgspec.structs.replace(upkeep.erasure_of(store.read_stream("order/a")[1]), position=3)
    with pytest.raises(errors.EraseRefused, match="there is no such payload"):
        store.record([upkeep.erased_fact(wrong)], maintenance=Maintenance(erasures=(wrong,)))
    assert all(found.payload is not None for found in store.read().events)
    assert store.append("order/a", NewEvent("thing.done", {}), expected=3).seq == 4


def test_a_follower_misses_only_what_was_pruned(reopen: Callable[..., Store]) -> None:
    """CP-04: every acknowledged event is seen once, in order, or is recorded as pruned; the head never goes back."""
    store, follower = reopen(), reopen(readonly=True)
    done, seen, heads = threading.Event(), list[bytes](), [0]

    def write(name: int) -> None:
        for number in range(40):
            store.append(f"order/{name}", events(1 + number % 3))
            if number % 10 == 9:
                head = store.stream_head(f"order/{name}")
                assert head is not None
                upkeep.prune(store, f"order/{name}", head.seq - 1)

    def follow() -> None:
        after, is_over = 0, False
        while not is_over or after < heads[-1]:
            is_over = done.is_set()  # before the head, which is then the last one
            heads.append(follower.head())
            page = follower.read(after=after, over_pruned=True, limit=7)
            seen.extend(event.id for event in page.events)
            after = page.through

    reader = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    left = [event.id for event in store.events(over_pruned=True)]
    assert len(set(seen)) == len(seen)
    assert [id_ for id_ in seen if not store.log.pruned(id_)] == left
    assert len(left) == store.log.report().facts["events_head"] - sum(cut.count for cut in store.log.cuts(limit=100))
    assert heads == sorted(heads)


def may_vacuum(connect: Connect) -> bool:
    """Whether the right to vacuum can be granted: since PostgreSQL 17; before, autovacuum does it."""
    return connect().info.server_version >= 170_000


def test_reclaimed_room_is_used_again(store: Store, connect: Connect) -> None:
    """EVT-13: after a prune and a reclaim, as many events again take hardly more room than before."""
    if not may_vacuum(connect):
        pytest.skip("before PostgreSQL 17 only autovacuum returns space")
    batch = [NewEvent("thing.done", {"n": number, "text": "x" * 900}) for number in range(3000)]
    store.append("order/a", batch)
    before = store.report().facts["log_bytes"]
    upkeep.prune(store, "order/a", 3000)
    reclaimed = store.log.reclaim(compress_before=None, progress=lambda done: None)
    assert "vacuumed" in reclaimed.done[0]
    store.append("order/a", batch)
    assert store.report().facts["log_bytes"] < 1.2 * before
