"""With a pooler that gives each transaction another server process, nobody sees data of another org."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Event, NewEvent, Selection, Store, errors, match
from tallystick.engines.postgres.connections import ServerConnections
from tallystick.projections import TableRunner
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events, named

from .pooler import pgbouncer
from .test_superuser import Counts

pytestmark = pytest.mark.security

Login = Callable[..., str]
ORGS = ("acme", "bolt")


@pytest.fixture(autouse=True)
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record what connections send. PgBouncer holds a server for a flush, and no answer to that gives it back."""
    set_up = ServerConnections._set_up
    with ExitStack() as files:

        def traced(self: ServerConnections, connection: psycopg.Connection[Any]) -> None:
            file = files.enter_context(tempfile.NamedTemporaryFile("w", dir=tmp_path, prefix="messages-", delete=False))
            connection.pgconn.trace(file.fileno())
            set_up(self, connection)

        monkeypatch.setattr(ServerConnections, "_set_up", traced)
        yield
    for record in tmp_path.glob("messages-*"):
        assert _held_by_a_flush(record.read_text(errors="replace")) == []


_MESSAGE = re.compile(r"^\S+ \S+\t([FB])\t\d+\t(\w+)(?:\t (.*))?$", re.MULTILINE)


def _held_by_a_flush(record: str) -> list[str]:
    """The ends of transactions before which a flush was the last message that was sent."""
    found, last = [], ""
    for message in _MESSAGE.finditer(record):
        sender, kind, status = message.groups()
        if sender == "F":
            last = kind
        elif kind == "ReadyForQuery" and status == "I" and last == "Flush":
            found.append(message.group())
    assert "ReadyForQuery" in record
    return found


def _own(org: str, number: int) -> NewEvent:
    return NewEvent("thing.done", {"n": number}, meta={"org": org})


def _work(store: Store, org: str, rounds: int, crossed: list[Any]) -> None:
    """Append and read for one org, in every way that a handle has."""
    try:
        for number in range(rounds):
            stream = f"order/{org}-{number % 7}"
            if number % 5 == 4:
                store.append(stream, [_own(org, number), _own(org, number)])
            elif number % 5 == 3:
                store.append_all([(f"{stream}-a", [_own(org, number)], -1), (f"{stream}-b", [_own(org, number)], -1)])
            elif number % 5 == 2:
                store.append(stream, _own(org, number), unless=match(tags=["no:such"]))
            else:
                store.append(stream, _own(org, number))
            other = ORGS[1 - ORGS.index(org)]
            seen: list[Event] = store.read(after=max(store.head() - 20, 0)).events
            seen += store.read_stream(stream) + store.read_stream(f"order/{other}-{number % 7}")
            seen += store.read(selection=Selection(org=other)).events
            crossed += [event for event in seen if event.metadata["org"] != org]
            crossed += [info for info in store.streams() if info.org != org]
            with pytest.raises(errors.OrgMismatch):
                store.append(f"order/{other}-{number % 7}", _own(other, number))
    except BaseException as problem:
        crossed.append(problem)


@pytest.mark.parametrize("servers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_event_crosses_from_one_tenant_to_another(store: Store, login: Login, servers: int) -> None:
    """CP-10: 1,000 interleaved reads and appends of two orgs over shared server connections, and none mixes them."""
    crossed: list[Any] = []
    rounds = 125  # of two orgs, with two appends and reads each at the least
    with pgbouncer(login("tally_app"), servers=servers) as pooled:
        handles = [tallystick.open(pooled, org=org) for org in ORGS]
        handles.append(tallystick.open(pooled))
        given = zip(handles, ORGS, strict=False)
        threads = [threading.Thread(target=_work, args=(handle, org, rounds, crossed)) for handle, org in given]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tenants = [(org, handles[2].log.for_tenant(org)) for org in ORGS]  # type: ignore[attr-defined]
        for number in range(100):
            org, tenant = tenants[number % 2]
            crossed += [event for event in tenant.read(limit=5).events if event.metadata["org"] != org]
            crossed += [] if len({event.metadata["org"] for event in handles[2].read().events}) == 2 else ["too few"]
        for handle in handles:
            handle.close()
    assert crossed == []
    assert verify(store.log).ok


def test_what_a_session_was_left_with_changes_nothing(store: Store, login: Login, connect: Callable[..., Any]) -> None:
    """CP-10: role, org, path and mode that another client left on the server connection have no effect."""
    store.append("order/acme", [_own("acme", 1)])
    store.append("order/bolt", [_own("bolt", 1)])
    with pgbouncer(login("tally_app"), servers=1) as pooled, psycopg.connect(pooled, autocommit=True) as other:
        other.prepare_threshold = None
        with tallystick.open(pooled, org="acme") as acting:
            for left in (
                "SET tally.org = 'bolt'",
                "SET ROLE tally_reader",
                "SET default_transaction_read_only = on",
                "SET default_transaction_isolation = 'serializable'",
                "SET search_path = public",
                "SET lock_timeout = 1",
            ):
                other.execute(left)
                assert {event.metadata["org"] for event in acting.read().events} == {"acme"}
                acting.append("order/acme", _own("acme", 2))
                acting.append_all([("order/acme", [_own("acme", 3)], -1), ("order/acme-2", [_own("acme", 3)], -1)])
            assert other.execute("SELECT current_setting('tally.org'), current_user").fetchone() == (
                "bolt",
                "tally_reader",
            )


def test_a_store_through_a_pooler_can_do_everything(store: Store, login: Login) -> None:
    """CP-12: retries, commands, facts, maintenance, rows, tables, damage: each over another server connection."""
    with pgbouncer(login("tally_projector"), servers=2) as pooled, tallystick.open(pooled) as projector:
        store.append("order/c", NewEvent("thing.done", {}))
        TableRunner(projector, Counts()).catch_up()
        assert TableRunner(projector, Counts()).query("SELECT many FROM {counts} WHERE stream = 'order/c'") == [(1,)]
    made = login("tally_app", "tally_control", "tally_maintenance")
    with pgbouncer(made, servers=3) as pooled, tallystick.open(pooled) as service:
        service.append("order/a", events(6))
        done = service.append("order/b", named(7))
        assert service.append("order/b", named(7)).stored == 1
        assert service.wait(0, timeout=5) >= done.position
        service.configure(secrets="warn")
        snapshot = upkeep.snapshot(service, "order/a")
        upkeep.erase(service, "order/a", 2)
        upkeep.prune(service, "order/a", 3)
        upkeep.drop(service, snapshot)
        service.acquire_lease("run/one")
        service.append("run/one", events(2))
        service.save_checkpoint("me", 4)
        assert store.load_checkpoint("me") == 4
        reclaimed = service.log.reclaim(compress_before=None, progress=lambda given: None)
        assert "pooler" in reclaimed.done[0]
        assert verify(service.log).ok
        with tallystick.open(pooled, readonly=True) as reader:
            assert len(reader.read(over_pruned=True).events) == len(store.read(over_pruned=True).events)
            assert reader.report().facts["role"] == "tally_app"


def test_a_pooler_that_ends_transactions_early_is_refused(store: Store, login: Login) -> None:
    """CP-12: a pooler that gives each statement another process has no transactions, and is refused by name."""
    with pgbouncer(login("tally_app"), mode="statement") as pooled, pytest.raises(errors.TallyError, match="statement"):
        tallystick.open(pooled)
