"""Forgeries by the owner of the file, without the triggers: verification reports each one."""

from __future__ import annotations

import hashlib
import sqlite3

import pytest

from tallystick import NewEvent, errors
from tallystick.event import canonical, chain, ids
from tallystick.event.model import Event
from tallystick.store import facts
from tallystick.store.verify import verify
from tallystick.testing import upkeep


@pytest.fixture
def forge(path):
    """Run statements on the file of the store without its triggers, and restore the triggers."""

    def run(*statements: str | tuple) -> None:
        raw = sqlite3.connect(path, isolation_level=None)
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        raw.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(*((statement,) if isinstance(statement, str) else statement))
        for _, sql in triggers:
            raw.execute(sql)
        raw.execute("COMMIT")
        raw.close()

    return run


@pytest.fixture
def filled(store, some):
    """Two streams, and a snapshot of one of them."""
    store.append("order/a", some(6))
    store.append("order/b", some(2))
    upkeep.snapshot(store, "order/a", b'{"n":6}')
    assert verify(store.log).problems == []
    return store


def _found(store) -> set[str]:
    return {problem.what for problem in verify(store.log).problems}


_THIRD = "FROM events WHERE stream = 'order/a' AND seq = 3"
_CUT = "INSERT INTO cuts SELECT stream, seq, link, 1, position, seq, NULL, {} " + _THIRD
_NOTE = "INSERT INTO pruned SELECT position, id, type, org FROM events WHERE stream = 'order/a' AND seq <= 3"
_DELETE = "DELETE FROM events WHERE stream = 'order/a' AND seq <= 3"


def _fact_row(store, type_: str, payload: dict, link: bytes | None = None) -> tuple:
    """An event as an outsider would write it into the stream of facts, with the right link by default."""
    stream = facts.stream_about("order/a")
    head = store.stream_head(stream)
    body = canonical.encode(payload)
    made = Event(
        position=store.head() + 1,
        stream=stream,
        seq=head.seq + 1,
        type=type_,
        version=1,
        id=ids.default.mint(1, time_ns=1)[0],
        time=1,
        payload=body,
        meta=b"{}",
        checksum=hashlib.sha256(body).digest(),
        link=bytes(32),
        signature=None,
    )
    row = made.row
    return (*row[:10], link or chain.link(made, head.link), *row[11:], 1, None, None, None)


def _insert(row: tuple) -> tuple:
    return (f"INSERT INTO events VALUES ({', '.join('?' * 16)})", row)


def _pruned(store) -> dict:
    return upkeep.pruned_fact(upkeep.cut_of(store, "order/a", 3))[1].payload


def test_the_schema_is_whole_again_after_a_forgery(filled, forge):
    """The forgeries below are found by their changes, not by a missing trigger."""
    forge("SELECT 1")
    assert verify(filled.log).problems == []


def test_a_forged_cut_is_found(filled, forge):
    """A forged tombstone: the cut, its recorded ids and the missing prefix agree, and no control fact names it."""
    forge(_CUT.format(1), _NOTE, _DELETE)
    assert "cut" in _found(filled)
    reasons = [problem.reason for problem in verify(filled.log).problems]
    assert any("no control fact" in reason for reason in reasons)


def test_a_cut_prefix_is_found(filled, forge):
    """Events deleted from the front of a stream: seqs, positions and links all show it."""
    forge(_DELETE)
    assert _found(filled) >= {"order", "sequence"}


def test_a_cut_prefix_with_its_stream_is_found(filled, forge):
    """Removing a whole stream with its head leaves positions that nothing explains."""
    forge("DELETE FROM events WHERE stream = 'order/b'", "DELETE FROM streams WHERE stream = 'order/b'")
    assert "sequence" in _found(filled)


def test_the_newest_events_cut_off_are_found_by_the_counter(filled, forge):
    """Removing the tail of a stream, with a matching head: the assigned positions remain recorded."""
    forge(
        "DELETE FROM events WHERE stream = 'order/b' AND seq = 2",
        "UPDATE streams SET seq = 1, link = (SELECT link FROM events WHERE stream = 'order/b')"
        " WHERE stream = 'order/b'",
    )
    assert "sequence" in _found(filled)


def test_a_payload_that_vanished_is_found(filled, forge):
    """A fake erased mark: the payload is NULL, and no fact says that it was erased."""
    forge("UPDATE events SET payload = NULL WHERE stream = 'order/a' AND seq = 2")
    assert _found(filled) == {"erasure"}


def test_a_payload_that_vanished_with_a_forged_erasure_is_found(filled, forge):
    """A fake erased mark in the engine's own table is not believed without the control fact."""
    forge(
        "INSERT INTO erasures SELECT position, stream, seq, checksum, 9 " + _THIRD,
        "UPDATE events SET payload = NULL WHERE stream = 'order/a' AND seq = 3",
    )
    assert _found(filled) == {"erasure"}


def test_an_erased_payload_that_came_back_is_found(filled, forge):
    """A payload that a fact says was erased must not exist."""
    payload = filled.read_stream("order/a")[1].payload
    upkeep.erase(filled, "order/a", 2)
    forge(("UPDATE events SET payload = ? WHERE stream = 'order/a' AND seq = 2", (payload,)))
    assert _found(filled) == {"erasure"}


def test_a_pruned_event_that_came_back_is_found(filled, forge):
    """An event that a cut covers must not exist."""
    row = filled.read_stream("order/a")[0].row
    upkeep.prune(filled, "order/a", 3)
    forge(_insert((*row, 1, None, None, None)))
    assert _found(filled) >= {"cut", "order", "sequence"}


@pytest.mark.parametrize("body", ["x'7b7d'", "CAST('{\"n\":7}' AS BLOB)"], ids=["shorter", "as long"])
def test_a_changed_snapshot_is_found(filled, forge, body):
    """A forged body differs from the hash in its fact."""
    forge(f"UPDATE snapshots SET state_payload = {body}, body_bytes = length({body})")
    assert _found(filled) == {"snapshot"}


def test_swapped_snapshots_are_found(filled, forge):
    """Two swapped bodies are both reported."""
    upkeep.snapshot(filled, "order/b", b'{"n":2}')
    forge(
        "UPDATE snapshots SET state_payload = CAST(CASE CAST(state_payload AS TEXT) WHEN '{\"n\":6}' THEN '{\"n\":2}'"
        " ELSE '{\"n\":6}' END AS BLOB)"
    )
    assert [problem.what for problem in verify(filled.log).problems] == ["snapshot", "snapshot"]


def test_an_invented_snapshot_is_found(filled, forge):
    """A body without a fact is not a snapshot."""
    forge(
        "INSERT INTO snapshots SELECT NULL, randomblob(16), run_id, stream, seq + 1, position, last_event_id, link,"
        " reducer, reducer_version, upcasters, kind, base, state_hash, body_bytes, created_at, state_payload"
        " FROM snapshots"
    )
    assert _found(filled) == {"snapshot"}


def test_a_lost_snapshot_is_found(filled, forge):
    """A fact names a body that is missing."""
    forge("DELETE FROM snapshots")
    assert _found(filled) == {"snapshot"}


def test_a_forged_fact_with_a_wrong_link_is_found(filled, forge):
    """A control event that breaks the chain is reported, although cut and prefix agree with it."""
    row = _fact_row(filled, facts.PRUNED, _pruned(filled), link=b"l" * 32)
    move = ("UPDATE streams SET seq = ?, link = ? WHERE stream = ?", (row[2], row[10], row[1]))
    forge(_insert(row), move, _CUT.format(row[0]), _NOTE, _DELETE)
    assert _found(filled) == {"link"}


def test_a_fact_that_nothing_followed_is_found(filled, forge):
    """A correctly chained control event that names a prune which the store did not do."""
    row = _fact_row(filled, facts.PRUNED, _pruned(filled))
    forge(_insert(row), ("UPDATE streams SET seq = ?, link = ? WHERE stream = ?", (row[2], row[10], row[1])))
    assert "cut" in _found(filled)


def test_forgotten_pruned_ids_are_found(filled, forge):
    """The ids of pruned events are counted and compared with the cuts: a missing one could be recorded again."""
    upkeep.prune(filled, "order/a", 3)
    forge("DELETE FROM pruned WHERE position = 2")
    assert _found(filled) >= {"cut", "sequence"}


def test_a_cut_moved_to_another_link_is_found(filled, forge):
    """The chain continues from the link in the cut, which is also in the fact."""
    upkeep.prune(filled, "order/a", 6)
    forge("UPDATE cuts SET link = zeroblob(32)")
    assert _found(filled) >= {"cut", "head"}


TAGGED = "position = (SELECT position FROM events WHERE stream = 'order/t' AND seq = 1)"
POSTINGS = {
    "a missing posting": (f"DELETE FROM event_tags WHERE {TAGGED} AND tag = 'a:1'", "lacks a:1"),
    "an extra posting": ("INSERT INTO event_tags VALUES ('z:9', 'thing.done', 1, NULL)", "has z:9"),
    "a posting of nothing": ("INSERT INTO event_tags VALUES ('a:1', 'thing.done', 99, NULL)", "has a:1"),
    "another tag": (f"UPDATE event_tags SET tag = 'a:2' WHERE {TAGGED} AND tag = 'a:1'", "has a:2"),
    "another type": (f"UPDATE event_tags SET type = 'thing.lost' WHERE {TAGGED} AND tag = 'a:1'", "thing.lost"),
    "another org": (f"UPDATE event_tags SET org = 'evil' WHERE {TAGGED}", "lacks a:1"),
    "an org taken away": (f"UPDATE event_tags SET org = NULL WHERE {TAGGED}", "lacks b:1"),
    "a posting of a pruned event": ("DELETE FROM event_tags WHERE tag = 'name:ada'", "lacks name:ada"),
    "an extra one of a pruned event": ("INSERT INTO event_tags SELECT 'z:9', type, position, org FROM pruned", "z:9"),
    "a tag that a prune kept": ("DELETE FROM pruned_tags", "has name:ada"),
    "a pruned type": ("UPDATE pruned SET type = 'thing.lost'", "lacks name:ada"),
    "a pruned org": ("UPDATE pruned SET org = 'evil'", "lacks name:ada"),
    "a tag of nothing": ("INSERT INTO pruned_tags VALUES (99, 'z:9')", "lacks z:9"),
}


@pytest.mark.security
@pytest.mark.parametrize("name", POSTINGS)
def test_an_index_that_the_events_contradict_is_found(store, forge, name):
    """TAG-02, TAG-03: a missing, an extra and a changed posting, of events and of what was pruned."""
    store.append("order/p", [NewEvent("thing.done", {}, tags=["name:ada"]), NewEvent("thing.done", {})])
    upkeep.prune(store, "order/p", 1)
    store.append("order/t", [NewEvent("thing.done", {}, meta={"org": "acme"}, tags=["a:1", "b:1"])] * 3)
    labels = {"tags": {"label": "no tag"}, "extra": {"tags": ["nested"]}}
    store.append("order/u", [NewEvent("thing.done", {}, meta=labels), NewEvent("thing.done", {}, tags=['q"]\\é'])])
    assert verify(store.log).problems == []
    statement, reason = POSTINGS[name]
    forge(statement)
    found = [problem for problem in verify(store.log).problems if problem.what == "tags"]
    assert found
    assert any(reason in problem.reason for problem in found)
    with pytest.raises(errors.Damaged):
        store.append("order/z", NewEvent("thing.done", {}))
