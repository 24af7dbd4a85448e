"""What one org's maintenance shows to another: nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest

from tallystick import Store, errors
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events

ORGS = ("acme", "bolt")


def _key(org: str) -> CommandKey:
    return CommandKey(org, "u1", "POST /orders", "k1")


def _run(store: Store, org: str, key: CommandKey | None = None, *, count: int = 1) -> None:
    command = CommandRecord(key or _key(org), b"h" * 32, b'{"of":"%s"}' % org.encode(), 1)
    parts = [Part(f"order/{org}", events(count, meta={"org": org}))]
    outcome = store.submit([Request(parts, command=command)])[0]
    if isinstance(outcome, errors.TallyError):
        raise outcome


@pytest.fixture
def filled(store: Store) -> Store:
    """For both orgs the same: a command, four events of which one is pruned, and a snapshot."""
    for org in ORGS:
        _run(store, org)
        store.append(f"order/{org}", events(3, meta={"org": org}))
    for org in ORGS:
        upkeep.prune(store, f"order/{org}", 1)
        upkeep.snapshot(store, f"order/{org}", b'{"of":"%s"}' % org.encode())
    return store


@pytest.mark.parametrize("readonly", [True, False], ids=["tenant", "service for the org"])
def test_each_org_sees_its_own_maintenance(filled: Store, reopen: Callable[..., Store], readonly: bool) -> None:
    """CP-10: cuts, floor, snapshots, commands and what they touched are those of the org, and no other's."""
    for org, other in (ORGS, ORGS[::-1]):
        log = reopen(readonly=readonly, org=org).log
        assert [cut.stream for cut in log.cuts(limit=100)] == [f"order/{org}"]
        assert log.cut(f"order/{other}") is None
        assert log.floor() == log.cuts(limit=100)[0].last_position
        (id_,) = log.snapshots.ids()
        assert log.snapshots.load(id_) == b'{"of":"%s"}' % org.encode()
        assert log.snapshots.size() == len(b'{"of":"acme"}')
        hidden = next(each for each in filled.log.snapshots.ids() if each != id_)
        assert log.snapshots.load(hidden) is None
        assert (log.commands.load(_key(org)) is None, log.commands.load(_key(other)) is None) == (False, True)
        assert log.commands.touching(f"order/{org}", 1) == [_key(org)]
        assert log.commands.touching(f"order/{other}", 1) == []


def test_a_prune_of_another_org_stops_no_tenant(store: Store, reopen: Callable[..., Store]) -> None:
    """CP-10: what was pruned of one org is no concern of a reader of another, and does not even show."""
    store.append("order/acme", events(3, meta={"org": "acme"}))
    store.append("order/bolt", events(3, meta={"org": "bolt"}))
    upkeep.prune(store, "order/bolt", 3)
    tenant = reopen(readonly=True, org="acme")
    assert (tenant.floor(), len(tenant.read().events)) == (0, 3)
    with pytest.raises(errors.HistoryPruned):
        reopen(readonly=True, org="bolt").read()


def test_a_tenants_role_sees_no_row_without_an_org(
    filled: Store, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """CP-10: every table of maintenance is closed to the reader's role until its session names an org."""
    connection = connect("tally_reader")
    for table, own in (("cuts", 1), ("pruned", 0), ("erasures", 0), ("snapshots", 1), ("commands", 1)):
        count = f"SELECT count(*) FROM tally.{table}"
        assert connection.execute(count).fetchone() == (0,)  # type: ignore[arg-type]
        with connection.transaction():
            connection.execute("SET LOCAL tally.org = 'acme'")
            assert connection.execute(count).fetchone() == (own,)  # type: ignore[arg-type]


def test_a_service_for_one_org_does_not_touch_another(filled: Store, reopen: Callable[..., Store]) -> None:
    """CP-10: neither a requirement, a prune, an erasure nor a command of another org gets through, or tells a seq."""
    acting = reopen(org="acme")
    cut = upkeep.cut_of(filled, "order/bolt", 2)
    erasure = upkeep.erasure_of(filled.read_stream("order/bolt", after=1)[0])
    own = event(meta={"org": "acme"})
    fact = ("tally.stream/order:acme", msgspec.structs.replace(upkeep.pruned_fact(cut)[1], meta={"org": "acme"}))
    erased = ("tally.stream/order:acme", msgspec.structs.replace(upkeep.erased_fact(erasure)[1], meta={"org": "acme"}))
    for attempt in (
        lambda: acting.record([fact], maintenance=Maintenance(cuts=(cut,))),
        lambda: acting.record([erased], maintenance=Maintenance(erasures=(erasure,))),
        lambda: acting.record([("tally.stream/order:acme", own)], require=[("order/bolt", 1)]),
        lambda: _run(acting, "acme", _key("bolt")),
        lambda: _run(acting, "acme", _key("bolt"), count=2),
    ):
        with pytest.raises(errors.OrgMismatch) as refused:
            attempt()
        assert "seq 4" not in str(refused.value)
    assert filled.log.commands.load(_key("bolt")) is not None
    assert filled.read_stream("order/bolt", after=1)[0].payload is not None
