"""The index of tags: it finds what the model finds, scans nothing for it, and is not believed when it is wrong."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Marker, NewEvent, Query, Selection, Store, errors, match
from tallystick.engines.postgres import conditions, writer
from tallystick.engines.postgres.safe_head import SafeHead
from tallystick.store.prepare import Part, Request
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep

Connect = Callable[..., psycopg.Connection[Any]]
Reopen = Callable[..., Store]
TYPES = ("a.x", "a.y", "b.z")
ORGS = (None, "acme", "bolt")
APPEND = "SELECT tally.append_event(%s, -1, 't', 1, gen_random_uuid(), 0, '{}', %s, NULL, 0, false, NULL, NULL)"
COLLIDING = """SELECT min(tag), max(tag) FROM (SELECT 'c:' || n AS tag FROM generate_series(1, 300000) AS n) AS made
    GROUP BY hashtext(tag) HAVING count(*) > 1 LIMIT 1"""


def _random_event(chosen: random.Random, org: str | None) -> NewEvent:
    given = ["all:0", f"half:{chosen.randrange(2)}", f"rare:{chosen.randrange(40)}"][: chosen.randrange(4)]
    return NewEvent(chosen.choice(TYPES), {}, meta={"org": org} if org else None, tags=given, time=chosen.randrange(9))


def _random_query(chosen: random.Random) -> Query:
    tags = ["all:0", "half:0", "half:1", "rare:0", "rare:1", "no:such"]
    whole: Query | None = None
    for _ in range(chosen.choice((1, 1, 2, 4))):
        item = match(
            types=chosen.sample([*TYPES, "c.none"], chosen.choice((0, 0, 1, 2))),
            tags=chosen.sample(tags, chosen.choice((0, 1, 1, 2, 3))),
        )
        whole = item if whole is None else whole | item
    assert whole is not None
    return whole


def _fill(store: Store, chosen: random.Random) -> None:
    for _ in range(8):
        for number, org in enumerate(ORGS):
            store.append(f"order/{number}", [_random_event(chosen, org) for _ in range(chosen.randrange(1, 9))])
    for number in range(2):
        upkeep.prune(store, f"order/{number}", chosen.randrange(1, 20))


def _matches(store: Store, condition: Condition, limit: int) -> list[int]:
    items = conditions.to_json(condition.query.items)
    rows = store.log._connections.rows("matching", (items, condition.after, condition.org, limit))  # type: ignore[attr-defined]
    return [position for (position,) in rows]


@pytest.mark.parametrize("seed", range(2))
def test_it_finds_what_the_model_finds(store: Store, seed: int) -> None:
    """TAG-01, TAG-02: any query with any other condition, page by page and within bounds; pruned events count."""
    chosen = random.Random(seed)
    with tallystick.open("memory:") as model:
        _fill(store, random.Random(seed))
        _fill(model, random.Random(seed))
        for _ in range(80):
            query, org, after = _random_query(chosen), chosen.choice(ORGS), chosen.choice((0, 0, chosen.randrange(120)))
            condition = Condition(query, after, org=org)
            for limit in (1, 3, 1000):
                assert _matches(store, condition, limit) == model.log.matches(condition, limit=limit), query  # type: ignore[attr-defined]
            selection = Selection(
                query=query,
                org=org,
                types=frozenset(chosen.choice(((), (), TYPES[:1], TYPES[:2]))),
                time_from=chosen.choice((None, None, 4)),
                streams=frozenset(chosen.choice(((), (), ("order/1",), ("order/1", "order/2")))),
            )
            until, limit = chosen.choice((None, chosen.randrange(150))), chosen.choice((1, 2, 7, 1000))
            for _ in range(2):
                pages = [
                    each.read(after=after, until=until, selection=selection, limit=limit, over_pruned=True)
                    for each in (store, model)
                ]
                places = [([event.position for event in page.events], page.through) for page in pages]
                assert places[0] == places[1], selection
                after = pages[0].through
            seen = [each.consult(query, org=org, over_pruned=True) for each in (store, model)]
            positions = [[event.position for event in found.events] for found in seen]
            assert positions[0] == positions[1], query


RARE = {
    "a rare tag": match(tags=["rare:1"]),
    "with a hot one": match(tags=["hot:1", "hot:2", "rare:1"]),
    "with its type": match(types=["thing.done", "thing.lost"], tags=["hot:1", "rare:1"]),
    "a rare type of a hot tag": match(types=["thing.else"], tags=["hot:1"]),
    "a type that is not there": match(types=["thing.lost"], tags=["hot:1"]) | match(types=["thing.lost"]),
    "several": match(tags=["rare:1"]) | match(types=["thing.else"]) | match(tags=["no:such", "hot:1"]),
}


def test_nothing_is_scanned_for_what_is_rare(store: Store, connect: Connect) -> None:
    """TAG-01, TAG-02: a page and a condition touch few pages of a log of 12,000 events, whatever is known of it."""
    for start in range(0, 12_000, 2000):
        store.append("order/a", [NewEvent("thing.done", {}, tags=["hot:1", "hot:2"])] * 2000)
        if start == 6000:
            store.append("order/b", NewEvent("thing.done", {}, tags=["hot:1", "rare:1"]))
            store.append("order/b", NewEvent("thing.else", {}, tags=["hot:1"]))
    query = "SELECT tally.matching(%s::jsonb, 0, NULL, NULL, 10)"
    touched = {}
    wanted = RARE | {"what is common": match(tags=["hot:1", "hot:2"]) | match()}
    for is_analysed, name in itertools.product((False, True), wanted):
        if is_analysed:
            connect().execute("ANALYZE tally.events, tally.event_tags")
        connection, asked = connect("tally_app"), wanted[name]
        values = (conditions.to_json(asked.items),)
        for _ in range(2):  # the first time, the functions are planned
            plan = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode(), values).fetchone()
        assert plan is not None
        top = plan[0][0]["Plan"]
        touched[name, is_analysed] = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    assert {name: count for name, count in touched.items() if count > 250} == {}


def _loosely(connect: Connect, *statements: str) -> None:
    """Run statements without the triggers of the tables, as a superuser can."""
    connection = connect()
    for switch in ("DISABLE", "ENABLE ALWAYS"):
        for statement in statements if switch != "DISABLE" else ():
            connection.execute(statement.encode())
        for table, trigger in (
            ("event_tags", "event_tags_are_not_changed"),
            ("events", "events_are_not_changed"),
            ("events", "pruned_events_are_noted"),
            ("pruned", "pruned_are_not_changed"),
        ):
            connection.execute(f"ALTER TABLE tally.{table} {switch} TRIGGER {trigger}".encode())


CHANGED = {
    "an extra posting": "INSERT INTO tally.event_tags VALUES ('a:2', 'thing.done', 1, NULL)",
    "another tag": "UPDATE tally.event_tags SET tag = 'a:2' WHERE position = 2 AND tag = 'a:1'",
    "another type": "UPDATE tally.event_tags SET type = 'thing.else' WHERE position = 3",
    "another org": "UPDATE tally.event_tags SET org = 'evil' WHERE tag = 'a:2'",
    "an event taken away": "DELETE FROM tally.events WHERE position = 3",
}


@pytest.mark.security
@pytest.mark.parametrize("statement", CHANGED.values(), ids=CHANGED.keys())
def test_what_the_index_says_is_compared_with_the_events(store: Store, connect: Connect, statement: str) -> None:
    """SAFE-01, TAG-01: no event is served because the index names a wrong one; it goes on record."""
    for tag in ("a:1", "a:1", "a:2"):
        store.append("order/a", NewEvent("thing.done", {}, tags=[tag]))
    _loosely(connect, statement)
    assert not verify(store.log).ok
    query = match(types=["thing.else"] if "else" in statement else [], tags=["a:2"])
    org = "evil" if "evil" in statement else None
    with pytest.raises(errors.Damaged):
        store.consult(query, org=org)
    with pytest.raises(errors.Damaged):
        store.append("order/a", NewEvent("thing.done", {}))
    if "DELETE" not in statement and org is None:  # a page leaves such an event out; verification names it
        with pytest.raises(errors.Damaged):
            list(store.events(selection=Selection(query=query, org=org)))


LOST = {
    "a posting": "DELETE FROM tally.event_tags WHERE tag = 'a:2'",
    "a posting of what was pruned": "DELETE FROM tally.event_tags WHERE tag = 'a:1' AND position = 1",
    "the tags of what was pruned": "UPDATE tally.pruned SET tags = '{}'",
    "the type of what was pruned": "UPDATE tally.pruned SET type = 'thing.else'",
}


@pytest.mark.security
@pytest.mark.parametrize("statement", LOST.values(), ids=LOST.keys())
def test_verification_finds_what_the_index_lacks(store: Store, connect: Connect, statement: str) -> None:
    """SAFE-01, TAG-03: an index without a posting cannot notice it itself: the check compares both ways."""
    for tag in ("a:1", "a:1", "a:2"):
        store.append("order/a", NewEvent("thing.done", {}, tags=[tag]))
    upkeep.prune(store, "order/a", 1)
    assert verify(store.log).ok
    _loosely(connect, statement)
    assert {problem.what for problem in verify(store.log).problems} == {"tags"}


@pytest.mark.parametrize("role", ["tally_app", "tally_maintenance", "tally_owner", None])
def test_postings_only_grow(store: Store, connect: Connect, role: str | None) -> None:
    """TAG-03: nobody changes or deletes one; the role that appends inserts none either."""
    store.append("order/a", NewEvent("thing.done", {}, tags=["a:1"]))
    connection = connect(role)
    statements = ["UPDATE tally.event_tags SET tag = 'b'", "DELETE FROM tally.event_tags", "TRUNCATE tally.event_tags"]
    if role in ("tally_app", "tally_maintenance"):
        statements.append("INSERT INTO tally.event_tags VALUES ('b', 'thing.done', 1, NULL)")
    for statement in statements:
        with pytest.raises(psycopg.Error, match=r"only grows|permission denied"):
            connection.execute(statement.encode())
    assert len(store.consult(match(tags=["a:1"])).events) == 1


def test_every_way_to_write_fills_the_index(store: Store, connect: Connect) -> None:
    """TAG-01: single events, batches, several streams, commands, and statements of the owner."""
    one = NewEvent("thing.done", {}, tags=["a:1"])
    store.append("order/a", one)
    store.append("order/a", [one, one])
    store.append_all([("order/a", [one], -1), ("order/b", [one, one], -1)])
    connection = connect("tally_app")
    for meta in ('{"tags":["a:1"]}', '{"\\u0074ags":["a:1"]}', '{"tags" : [ "a:1", "a:1" ]}', '{"tags":{"a:1":"x"}}'):
        connection.execute(APPEND, ("order/c", meta))
    assert len(store.consult(match(tags=["a:1"])).events) == 9
    assert connection.execute("SELECT count(*) FROM tally.event_tags").fetchone() == (9,)
    for tags in ("[1]", "[null]", '[""]', f'["{"x" * 257}"]', str([f"t{n}" for n in range(33)]).replace("'", '"')):
        with pytest.raises(psycopg.Error, match="its meta is not valid"):
            connection.execute(APPEND, ("order/c", f'{{"tags":{tags}}}'))
    assert verify(store.log).ok


# --- conditions -------------------------------------------------------------------------------------------------------


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
    locks = connect().execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert locks == (0,)
    (refused,) = store.submit([Request([Part("order/z", given)], unless=match(tags=[f"b:{size - 1}"]))])
    assert isinstance(refused, errors.ConditionFailed)


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


def test_a_read_of_several_statements_notices_a_cut_between_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-03, EVT-14: a page that other conditions thin out is refused if a part of it was pruned meanwhile."""
    store.append("order/a", [NewEvent("thing.done", {}, tags=["a:1"], time=number) for number in range(1500)])
    chosen = Selection(query=match(tags=["a:1"]), time_from=700)
    assert [len(store.read(selection=chosen, limit=limit).events) for limit in (500, 1000)] == [500, 800]
    fetch = store.log._connections.fetch  # type: ignore[attr-defined]
    statements = []

    def noted(query: Any, values: Any = ()) -> Any:
        rows = fetch(query, values)
        if "matching" in query and not statements:
            statements.append(query)
            upkeep.prune(store, "order/a", 10)
        return rows

    monkeypatch.setattr(store.log._connections, "fetch", noted)  # type: ignore[attr-defined]
    with pytest.raises(errors.HistoryPruned):
        store.read(selection=chosen, limit=500)


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
