"""Appends that depend on a query: round trips, locks, what is past the safe head, and tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallystick import Marker, NewEvent, Selection, Store, errors, match
from tallystick.engines.postgres import conditions, writer
from tallystick.engines.postgres.safe_head import SafeHead
from tallystick.store.prepare import Part, Request
from tallystick.testing import upkeep

Connect = Callable[..., psycopg.Connection[Any]]
Reopen = Callable[..., Store]
APPEND = "SELECT tally.append_event(%s, -1, 't', 1, gen_random_uuid(), 0, '{}', %s, NULL, 0, false, NULL, NULL)"
COLLIDING = """SELECT min(tag), max(tag) FROM (SELECT 'c:' || n AS tag FROM generate_series(1, 300000) AS n) AS made
    GROUP BY hashtext(tag) HAVING count(*) > 1 LIMIT 1"""


def test_a_single_append_with_a_condition_is_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-02, CP-14: it passes, and is refused, without the ledger; so is one with tags and no condition."""
    monkeypatch.setattr(writer.Writer, "_commit_by_ledger", None)
    name = match(tags=["name:ada"])
    store.append("order/a", NewEvent("thing.done", {}, tags=["name:bob"]))
    store.append("order/a", NewEvent("thing.done", {}, tags=["name:ada"]), unless=name)
    with pytest.raises(errors.ConditionFailed, match="position 2"):
        store.append("order/b", NewEvent("thing.done", {}, tags=["name:ada"]), unless=name)


def test_a_refused_append_draws_no_position(store: Store) -> None:
    """TAG-02: not a single event, and not a group; the next event is next to the last."""
    store.append("order/a", NewEvent("thing.done", {}, tags=["a:1"]))
    for events in ([NewEvent("thing.done", {})], [NewEvent("thing.done", {})] * 3):
        with pytest.raises(errors.ConditionFailed):
            store.append("order/b", events, unless=match(tags=["a:1"]))
        with pytest.raises(errors.ConditionFailed):
            store.append("order/b", events, unless=match(types=["thing.done"]))
    assert store.append("order/b", NewEvent("thing.done", {})).position == 2


def test_what_is_past_the_safe_head_is_seen(store: Store, connect: Connect) -> None:
    """TAG-02: a consultation sees what is committed above an append that hangs, and its marker says how many."""
    hanging = connect("tally_app", autocommit=False)
    hanging.execute(APPEND, ("order/x", "{}"))
    one = NewEvent("thing.done", {}, tags=["a:1"])
    positions = [store.append("order/a", one).position for _ in range(3)]
    assert store.head() == 0
    seen = store.consult(match(tags=["a:1"]))
    assert [event.position for event in seen.events] == positions
    assert (seen.marker.beyond, store.append("order/b", one, unless=seen.marker).seq) == (3, 1)
    with pytest.raises(errors.ConditionFailed, match=f"position {positions[-1] + 1}"):
        store.append("order/b", one, unless=seen.marker)
    with pytest.raises(errors.InvalidValue):
        store.append("order/b", one, unless=Marker(match(tags=["a:1"]), positions[0]))
    hanging.rollback()
    assert store.wait(positions[-1], timeout=10) > positions[-1]


def test_tags_with_one_hash_do_not_wait_for_themselves(store: Store, connect: Connect) -> None:
    """TAG-02: one commit has an event with a tag, and a condition on another one with the same hash."""
    row = connect().execute(COLLIDING).fetchone()
    assert row is not None
    one, other = row
    store.append("order/a", NewEvent("thing.done", {}, tags=[one]), unless=match(tags=[other]))
    store.append_all([("order/b", [NewEvent("thing.done", {}, tags=[one])], -1)] * 1, unless=match(tags=[other]))
    with pytest.raises(errors.ConditionFailed):
        store.append("order/a", NewEvent("thing.done", {}, tags=[other]), unless=match(tags=[one]))


@pytest.mark.parametrize("size", [1, 2, 70, 1000])
def test_any_number_of_tags_and_conditions_fits(reopen: Reopen, connect: Connect, size: int) -> None:
    """TAG-02: above 64 of either, the gate and the lock of the log replace locks of tags."""
    store = reopen(busy_ms=5000)
    given = [NewEvent("thing.done", {}, tags=[f"a:{number}", "all:1"]) for number in range(size)]
    store.append("order/a", given)
    store.append("order/a", given, unless=match(tags=["no:such"]))
    asked = [
        Request([Part(f"order/{number}", [NewEvent("thing.done", {}, tags=[f"b:{number}"])])], unless=query)
        for number in range(size)
        for query in (match(tags=[f"b:{number}"]), match(tags=[f"b:{number}", "all:1"]))
    ]
    done = store.submit(asked)
    assert [isinstance(each, errors.TallyError) for each in done] == [False] * len(asked)
    held = "SELECT count(*) FROM pg_locks JOIN pg_database AS own ON own.oid = database"
    held += " WHERE locktype = 'advisory' AND own.datname = current_database()"
    locks = connect().execute(held.encode()).fetchone()
    assert locks == (0,)
    (refused,) = store.submit([Request([Part("order/z", given)], unless=match(tags=[f"b:{size - 1}"]))])
    assert isinstance(refused, errors.ConditionFailed)


def test_a_full_table_of_locks_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-02: the server refuses a lock (53200) and rolls back; the same commit passes once there is room."""
    commit, failures = writer.Writer._commit_once, [True, True, False]

    def refused(*given: Any) -> Any:
        if failures.pop(0):
            raise psycopg.errors.OutOfMemory("out of shared memory")
        return commit(*given)

    monkeypatch.setattr(writer.Writer, "_commit_once", refused)
    assert store.append("order/a", NewEvent("thing.done", {}), unless=match(tags=["a:1"])).seq == 1


def test_a_condition_waits_for_an_append_with_its_tag(store: Store, reopen: Reopen, connect: Connect) -> None:
    """TAG-02: an append that hangs with the tag is waited for; one with other tags is not."""
    hanging = connect("tally_app", autocommit=False)
    hanging.execute(APPEND, ("order/x", '{"tags":["a:1","b:1"]}'))
    hurried = reopen(busy_ms=300)
    one = NewEvent("thing.done", {}, tags=["c:1"])
    for tags in (["a:1"], ["b:1"], ["a:1", "b:1"]):
        with pytest.raises(errors.Busy):
            hurried.append("order/a", one, unless=match(tags=tags))
        with pytest.raises(errors.Busy):
            hurried.append("order/a", [one, one], unless=match(tags=tags))
    with pytest.raises(errors.Busy):
        hurried.append("order/a", one, unless=match(types=["t"]))
    assert hurried.append("order/a", one, unless=match(tags=["a:2"])).seq == 1
    assert hurried.append("order/b", NewEvent("thing.done", {}, tags=["a:1"])).seq == 1
    hanging.commit()
    with pytest.raises(errors.ConditionFailed):
        hurried.append("order/a", one, unless=match(tags=["a:1"]))


def test_the_head_of_a_consultation_is_proven_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-02: what is committed after the proof and before the read counts as beyond it."""
    store.append("order/a", NewEvent("thing.done", {}, tags=["a:1"]))
    store.wait(0, timeout=5)
    glance = SafeHead.glance

    def slowly(self: SafeHead) -> int:
        head = glance(self)
        if not monkeypatch_used:
            monkeypatch_used.append(1)
            store.append("order/b", NewEvent("thing.done", {}, tags=["a:1"]))
        return head

    monkeypatch_used: list[int] = []
    monkeypatch.setattr(SafeHead, "glance", slowly)
    seen = store.consult(match(tags=["a:1"]))
    assert (len(seen.events), seen.marker.beyond) == (2, 1)
    store.append("order/c", NewEvent("thing.done", {}, tags=["a:1"]), unless=seen.marker)


# --- tenants ----------------------------------------------------------------------------------------------------------


def test_a_tenant_sees_and_tells_of_its_own_org(reopen: Reopen) -> None:
    """TAG-04: a view of a tenant, a reader's handle and a service for one org; also about what was pruned."""
    store = reopen(infrastructure=("node",))
    for stream, org in (("order/a", "acme"), ("order/b", "bolt"), ("order/n", None), ("node/1", "acme")):
        meta = {"org": org} if org else None
        store.append(stream, [NewEvent("thing.done", {}, meta=meta, tags=["a:1"])] * 3)
    upkeep.prune(store, "order/b", 2)
    name = match(tags=["a:1"])
    tenant = store.log.for_tenant("acme")  # type: ignore[attr-defined]
    for log in (tenant, reopen(readonly=True, org="acme").log):
        assert {event.stream for event in log.consult(name, after=0, org=None, over_pruned=False).events} == {"order/a"}
        assert {event.stream for event in log.read(selection=Selection(query=name)).events} == {"order/a"}
        assert {event.stream for event in log.read(selection=Selection(query=match())).events} == {"order/a"}
        assert log.consult(name, after=0, org="bolt", over_pruned=False).events == []
    acting = reopen(org="acme")
    assert {event.stream for event in acting.consult(name).events} == {"order/a", "node/1"}
    with pytest.raises(errors.HistoryPruned):
        reopen(org="bolt").consult(name)
    with pytest.raises(errors.HistoryPruned):
        reopen(readonly=True, org="bolt").consult(name)


def test_a_condition_of_a_service_for_one_org_counts_its_own(reopen: Reopen) -> None:
    """TAG-04: what others have, with or without an org, makes no difference, pruned or not."""
    store = reopen()
    mine = NewEvent("thing.done", {}, meta={"org": "acme"}, tags=["a:1"])
    store.append("order/b", [NewEvent("thing.done", {}, meta={"org": "bolt"}, tags=["a:1"])] * 3)
    store.append("order/n", NewEvent("thing.done", {}, tags=["a:1"]))
    upkeep.prune(store, "order/b", 1)
    acting = reopen(org="acme")
    name = match(types=["thing.done"], tags=["a:1"])
    acting.append("order/a", mine, unless=name)
    for events in (mine, [mine, mine]):
        with pytest.raises(errors.ConditionFailed):
            acting.append("order/c", events, unless=name)
    marker = acting.consult(name).marker
    store.append("order/b", NewEvent("thing.done", {}, meta={"org": "bolt"}, tags=["a:1"]))
    assert acting.append("order/c", [mine, mine], unless=marker).last_seq == 2


def test_a_login_of_a_tenant_finds_postings_of_its_events_alone(
    reopen: Reopen, connect: Connect, login: Callable[..., str]
) -> None:
    """TAG-04: with its own SQL too; without an org it finds none."""
    store = reopen(infrastructure=("node",))
    for stream, org in (("order/a", "acme"), ("order/b", "bolt"), ("order/n", None), ("node/1", "acme")):
        store.append(stream, NewEvent("thing.done", {}, meta={"org": org} if org else None, tags=["a:1"]))
    upkeep.prune(store, "order/a", 1)
    store.append("order/a", NewEvent("thing.done", {}, meta={"org": "acme"}, tags=["a:1"]))
    items = conditions.to_json(match(tags=["a:1"]).items)
    with psycopg.connect(login("tally_reader"), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM tally.event_tags").fetchone() == (0,)
        asked = "SELECT tally.matching(%s::jsonb, 0, NULL, NULL, NULL)"
        assert connection.execute(asked, (items,)).fetchall() == []
        connection.execute("SET tally.org = 'acme'")
        assert connection.execute("SELECT tag, position - 5 FROM tally.event_tags").fetchall() == [("a:1", 1)]
