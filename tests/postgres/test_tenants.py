"""Tenants: each sees only its own org, over any connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import NewEvent, Selection, Store, errors
from tallystick.testing.builders import event, event_id, named

ORGS = ("acme", "bolt")


def _fill(store: Store, count: int = 10) -> None:
    for number in range(count):
        for org in ORGS:
            store.append(f"order/{org}", event(number, meta={"org": org}))
    store.append("node/1", event(meta={"org": "acme"}))
    store.append("cluster/main", event())


def test_two_tenants_over_one_connection_never_see_each_other(
    reopen: Callable[..., Store], connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """CP-10: 1,000 switches between two tenants and the service on one pooled connection, without a leak."""
    store = reopen(infrastructure=("node",), connections_max=1)
    _fill(store)
    tenants = {org: store.log.for_tenant(org) for org in ORGS}  # type: ignore[attr-defined]
    pids = set()
    for number in range(1000):
        org = ORGS[number % 2]
        log = tenants[org]
        page = log.read(limit=100)
        assert {found.stream for found in page.events} == {f"order/{org}"}
        assert len(page.events) == 10
        if number % 10 == 0:
            other = ORGS[1 - number % 2]
            assert log.stream_head(f"order/{other}") is None
            assert [info.stream for info in log.streams(limit=100)] == [f"order/{org}"]
            assert log.read(selection=Selection(org=other)).events == []
            assert len(store.read(limit=100).events) == 22
            pids |= {row[0] for row in store.log._connections.rows("list_backend")}  # type: ignore[attr-defined]
    assert len(pids) == 1


def test_a_tenant_never_sees_the_infrastructure(reopen: Callable[..., Store]) -> None:
    """CP-10: streams of an infrastructure kind are hidden even if their events name the tenant's org."""
    store = reopen(infrastructure=("node",))
    _fill(store)
    tenant = reopen(readonly=True, org="acme")
    assert {found.stream for found in tenant.read().events} == {"order/acme"}
    assert [info.stream for info in tenant.streams()] == ["order/acme"]
    assert tenant.stream_head("node/1") is None


def test_a_tenants_cursor_moves_on_over_what_it_cannot_see(reopen: Callable[..., Store]) -> None:
    """CP-04, CP-09: a tenant's pages end at the same safe head as all others, in ascending order."""
    store = reopen()
    _fill(store)
    tenant = reopen(readonly=True, org="bolt")
    found, after = [], 0
    while after < store.head():
        page = tenant.read(after=after, limit=3)
        found += page.events
        after = page.through
    assert [item.position for item in found] == sorted(item.position for item in found)
    assert [item.data["n"] for item in found] == list(range(10))


def test_a_reader_without_an_org_sees_nothing(store: Store, connect: Callable[..., psycopg.Connection[Any]]) -> None:
    """CP-10: the reader's role sees nothing until its session names an org, also after a SET LOCAL has ended."""
    _fill(store)
    connection = connect("tally_reader")
    count = "SELECT count(*) FROM tally.events"
    assert connection.execute(count).fetchone() == (0,)
    with connection.transaction():
        connection.execute("SET LOCAL tally.org = 'acme'")
        assert connection.execute(count).fetchone() == (11,)
    assert connection.execute("SELECT current_setting('tally.org')").fetchone() == ("",)
    assert connection.execute(count).fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM tally.control_plane_events").fetchone() == (0,)


def test_a_tenant_cannot_write(store: Store, reopen: Callable[..., Store]) -> None:
    """CP-10: a tenant's handle refuses to write, and so does one made from the service's."""
    _fill(store)
    tenant = reopen(readonly=True, org="acme")
    with pytest.raises(errors.ReadOnly):
        tenant.append("order/acme", event())
    with pytest.raises(errors.ReadOnly):
        store.log.for_tenant("acme").commit([])  # type: ignore[attr-defined]


def test_a_login_of_a_tenant_needs_no_more_than_the_readers_role(store: Store, login: Callable[[str], str]) -> None:
    """CP-10: a login with only tally_reader reads its org, and cannot open the store as a service."""
    _fill(store)
    url = login("tally_reader")
    with tallystick.open(url, readonly=True, org="acme") as tenant:
        assert {found.stream for found in tenant.read().events} == {"order/acme", "node/1"}
        assert tenant.wait(0, timeout=1) == store.head()
    with pytest.raises(errors.NotPermitted):
        tallystick.open(url, readonly=True)


@pytest.mark.parametrize("size", [1, 3], ids=["one event", "a batch"])
@pytest.mark.parametrize("expected", [-1, 0, 5, 10])
def test_a_refusal_tells_nothing_of_another_org(reopen: Callable[..., Store], size: int, expected: int) -> None:
    """CP-10: a service that acts for one org learns of another's stream neither its seq nor its owner."""
    _fill(reopen())
    acting = reopen(org="acme")
    with pytest.raises(errors.OrgMismatch) as refused:
        acting.append("order/bolt", [event(n, meta={"org": "acme"}) for n in range(size)], expected=expected)
    assert "bolt" not in str(refused.value).replace("order/bolt", "")
    assert "10" not in str(refused.value)
    assert acting.stream_head("order/bolt") is None
    done = acting.append("order/acme", [event(n, meta={"org": "acme"}) for n in range(size)], expected=10)
    assert done.seq == 10 + size


def test_a_taken_id_tells_nothing_of_another_org(reopen: Callable[..., Store]) -> None:
    """CP-10: an id that another org has used is refused without information about its event."""
    reopen().append("secret/bolts-plan", named(1, meta={"org": "bolt"}))
    acting = reopen(org="acme")
    with pytest.raises(errors.DuplicateId) as refused:
        acting.append("order/acme", named(1, meta={"org": "acme"}))
    assert "bolt" not in str(refused.value)
    assert acting.find(event_id(1)) is None


@pytest.mark.parametrize("meta", [None, {"org": "bolt"}], ids=["none", "another"])
@pytest.mark.parametrize("size", [1, 3], ids=["one event", "a batch"])
def test_a_service_that_acts_for_an_org_writes_for_no_other(
    reopen: Callable[..., Store], meta: dict[str, str] | None, size: int
) -> None:
    """CP-10: the events of a service with an org must name that org."""
    acting = reopen(org="acme")
    with pytest.raises(errors.OrgMismatch):
        acting.append("order/new", [NewEvent("thing.done", {}, meta=meta) for _ in range(size)])
    assert reopen().head() == 0
