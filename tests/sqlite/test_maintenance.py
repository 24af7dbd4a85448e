"""Attacks by means of maintenance: through each of our connections, and through a foreign one."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from tallystick import NewEvent, errors
from tallystick.store import facts
from tallystick.store.maintenance import Maintenance
from tallystick.store.verify import verify
from tallystick.testing import upkeep

_FACT = "(SELECT position FROM events WHERE type = 'tally.{}')"
_CUT = "INTO cuts SELECT '{stream}', {through}, link, 2, position, {through}, NULL, {fact} FROM events"
_OF_A = " WHERE stream = 'order/a' AND seq = {}"
_ERASE = "INTO erasures SELECT position, stream, seq, checksum, {fact} FROM events WHERE stream = '{stream}'"
_PRUNED, _ERASED = _FACT.format("pruned"), _FACT.format("erased")


def _cut(through: int, fact: str = _PRUNED, *, how: str = "INSERT ", stream: str = "order/a") -> str:
    return how + _CUT.format(stream=stream, through=through, fact=fact) + _OF_A.format(through)


def _erase(seq: int, fact: str = _ERASED, *, how: str = "INSERT ", stream: str = "order/a") -> str:
    return how + _ERASE.format(stream=stream, fact=fact) + f" AND seq = {seq}"


_REFUSALS = (
    "immutable|authoriz|prohibited|a cut |an erasure |is erased once|was pruned|took effect once|a snapshot "
    "|is indexed once|each once"
)
FORBIDDEN = {
    "delete behind a cut": "DELETE FROM events WHERE stream = 'order/a' AND seq = 3",
    "delete of a stream without a cut": "DELETE FROM events WHERE stream = 'order/b'",
    "delete of a fact": "DELETE FROM events WHERE type = 'tally.pruned'",
    "a cut without a fact": _cut(3, "999"),
    "a cut by an event that is no fact": _cut(3, "3"),
    "a cut by the fact of another seq": _cut(4),
    "a cut by the fact of another stream": _cut(1, stream="order/b").replace("'order/a' AND", "'order/b' AND"),
    "a cut by the fact of an erasure": _cut(4, _ERASED),
    "a cut of facts": "INSERT INTO cuts SELECT stream, 1, link, position, position, 1, NULL, position FROM events"
    " WHERE type = 'tally.pruned'",
    "the same cut again": "INSERT INTO cuts SELECT * FROM cuts",
    "another cut in its place": "REPLACE INTO cuts SELECT stream, through, link, 2, 99, 99, 'evil', 9 FROM cuts",
    "a longer cut": "UPDATE cuts SET through = 4",
    "no cut": "DELETE FROM cuts",
    "forget what was pruned": "DELETE FROM pruned",
    "change what was pruned": "UPDATE pruned SET id = randomblob(16)",
    "replace what was pruned": "REPLACE INTO pruned SELECT position, randomblob(16), type, org FROM pruned",
    "note as pruned what is there": "INSERT INTO pruned SELECT position, id, type, org FROM events WHERE seq = 3",
    "note as pruned what never was": "INSERT INTO pruned VALUES (999, randomblob(16), NULL, NULL)",
    "forget the type of what was pruned": "UPDATE pruned SET type = NULL",
    "forget a tag of what was pruned": "DELETE FROM pruned_tags",
    "change a tag of what was pruned": "UPDATE pruned_tags SET tag = 'z:9'",
    "the same tag again": "REPLACE INTO pruned_tags SELECT * FROM pruned_tags",
    "keep a tag of what is there": "INSERT INTO pruned_tags SELECT position, 'z:9' FROM events WHERE seq = 3",
    "forget a posting": "DELETE FROM event_tags",
    "change a posting": "UPDATE event_tags SET org = 'evil'",
    "the same posting again": "REPLACE INTO event_tags SELECT * FROM event_tags",
    "a posting of nothing": "INSERT INTO event_tags VALUES ('a:1', 'thing.done', 999, NULL)",
    "erase without an erasure": "UPDATE events SET payload = NULL WHERE stream = 'order/a' AND seq = 4",
    "erase twice": "UPDATE events SET payload = NULL WHERE stream = 'order/a' AND seq = 3",
    "fill an erased payload": "UPDATE events SET payload = x'7b7d' WHERE stream = 'order/a' AND seq = 3",
    "change more while erasing": "UPDATE events SET payload = NULL, org = 'evil' WHERE stream = 'order/b'",
    "move while erasing": "UPDATE events SET rowid = 900 WHERE stream = 'order/b'",
    "an erasure without a fact": _erase(4, "999"),
    "an erasure by the fact of another seq": _erase(4),
    "an erasure by the fact of another stream": _erase(1, stream="order/b"),
    "an erasure by the fact of a prune": _erase(4, _PRUNED),
    "the same erasure again": _erase(3),
    "another erasure in its place": "REPLACE INTO erasures SELECT position, 'order/b', 1, checksum, 1 FROM erasures",
    "another erasure": "UPDATE erasures SET seq = 4",
    "no erasure": "DELETE FROM erasures",
    "a snapshot without a fact": "INSERT INTO snapshots (snapshot_id, stream, seq, position, last_event_id, link,"
    " reducer, reducer_version, upcasters, kind, state_hash, body_bytes, created_at, state_payload) VALUES"
    " (randomblob(16), 'order/a', 1, 1, 1, zeroblob(32), 'r', 1, x'', 'full', zeroblob(32), 2, 1, x'7b7d')",
    "another body": "UPDATE snapshots SET state_payload = x'7b7d', body_bytes = 2",
    "another snapshot in its place": "REPLACE INTO snapshots SELECT * FROM snapshots",
    "another response": "UPDATE commands SET response = x'7b7d'",
    "another command in its place": "REPLACE INTO commands SELECT number, org, actor, endpoint, key, x'', 0, x''"
    " FROM commands",
}
ONLY_FOR_MAINTENANCE = {
    "drop a snapshot": "DELETE FROM snapshots",
    "forget a command": "DELETE FROM commands",
    "keep a snapshot": "INSERT INTO snapshots SELECT * FROM snapshots WHERE 0",
}
TAMPERING = {
    "drop a trigger": "DROP TRIGGER cuts_only_grow",
    "drop a table": "DROP TABLE erasures",
    "writable schema": "PRAGMA writable_schema = ON",
    "weaken triggers": "PRAGMA recursive_triggers = OFF",
    "keep what is deleted": "PRAGMA secure_delete = OFF",
    "reuse positions": "UPDATE sqlite_sequence SET seq = 0",
    "another identity": "UPDATE store SET profile = 'run'",
    "claim a sweep": "INSERT INTO sweeps VALUES (999, 0)",
    "another head": "DELETE FROM streams",
    "vacuum away": "VACUUM INTO ':memory:'",
}


@pytest.fixture
def maintained(store, some):
    """A store whose stream `order/a` is pruned up to seq 2 and erased at 3, with a snapshot and a command."""
    from tallystick.store.idempotency import CommandKey, CommandRecord
    from tallystick.store.prepare import Part, Request

    command = CommandRecord(CommandKey("acme", "u", "e", "k"), b"h" * 32, b"{}", 1)
    store.append("order/b", some(1))  # first: it lies below the floor, and is not pruned
    tagged = [NewEvent("thing.done", {"n": number}, tags=["a:1", f"n:{number}"]) for number in range(5)]
    store.submit([Request([Part("order/a", tagged)], command=command)])
    upkeep.snapshot(store, "order/a")
    upkeep.prune(store, "order/a", 2)
    upkeep.erase(store, "order/a", 3)
    return store


def _state(path: str) -> list[list[tuple]]:
    tables = (
        "events",
        "event_tags",
        "cuts",
        "pruned",
        "pruned_tags",
        "erasures",
        "snapshots",
        "commands",
        "command_ranges",
        "sweeps",
        "streams",
    )
    raw = sqlite3.connect(path)
    try:
        return [raw.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
    finally:
        raw.close()


def _refused(connection: sqlite3.Connection, attack: str) -> None:
    with pytest.raises(sqlite3.DatabaseError, match=_REFUSALS):
        connection.execute(attack)


@pytest.mark.parametrize("attack", [*FORBIDDEN.values(), *TAMPERING.values()], ids=[*FORBIDDEN, *TAMPERING])
def test_the_maintaining_connection_does_only_what_a_fact_names(maintained, path, attack):
    """EVT-05, settled 18: maintenance cannot prune, erase or forget anything that no control fact names."""
    before = _state(path)
    with maintained.log._database.maintainer().exclusively("a test") as connection:
        _refused(connection, attack)
    assert _state(path) == before
    assert verify(maintained.log).problems == []


@pytest.mark.parametrize("attack", [*FORBIDDEN.values(), *ONLY_FOR_MAINTENANCE.values()])
def test_the_appending_connection_cannot_maintain(maintained, path, attack):
    """CP-05, settled 18: the appending connection can neither prune nor erase, not even what a fact names."""
    before = _state(path)
    _refused(maintained.log._database.writer._connection, attack)
    assert _state(path) == before


@pytest.mark.parametrize("attack", FORBIDDEN.values(), ids=FORBIDDEN)
def test_triggers_guard_maintenance_against_any_other_connection(maintained, path, attack):
    """CP-05: with SQLite's default settings (recursive_triggers off) nothing passes that no fact names."""
    before = _state(path)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        _refused(other, attack)
    finally:
        other.close()
    assert _state(path) == before


def test_the_appending_connection_cannot_use_what_maintenance_may(store, some):
    """Settled 18: a smuggled DELETE or UPDATE is refused by the authorizer, before any trigger is asked."""
    store.append("order/a", some(1))
    connection = store.log._database.writer._connection
    for attack in (
        "DELETE FROM events WHERE 0",
        "UPDATE events SET payload = NULL WHERE 0",
        "DELETE FROM cuts WHERE 0",
    ):
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            connection.execute(attack)


@pytest.mark.parametrize("field", ["link", "last_position"])
def test_a_cut_that_does_not_fit_the_event_is_refused(store, some, field):
    """EVT-07: the whole commit is rolled back, and the store still works."""
    store.append("order/a", some(3))
    cut = upkeep.cut_of(store, "order/a", 2)
    wrong = msgspec.structs.replace(cut, **{field: bytes(32) if field == "link" else cut.last_position + 1})
    with pytest.raises(errors.Damaged, match="contradict"):
        store.record([upkeep.pruned_fact(wrong)], maintenance=Maintenance(cuts=(wrong,)))
    assert (len(store.read_stream("order/a")), store.stream_head(facts.stream_about("order/a"))) == (3, None)
    assert store.append("order/a", some(1)).seq == 4


def test_maintenance_without_its_fact_is_refused(store, some):
    """EVT-05: an engine prunes and erases nothing that no control fact of the same commit names."""
    store.append("order/a", some(3))
    cut = upkeep.cut_of(store, "order/a", 2)
    erasure = upkeep.erasure_of(store.read_stream("order/a")[0])
    other = ("tally.stream/order:a", NewEvent("tally.noted", {"stream": "order/a"}))
    with pytest.raises(errors.PruneRefused, match="no control fact"):
        store.record([other], maintenance=Maintenance(cuts=(cut,)))
    with pytest.raises(errors.EraseRefused, match="no control fact"):
        store.record([other], maintenance=Maintenance(erasures=(erasure,)))
    assert [event.payload is None for event in store.read().events] == [False] * 3


def test_erasing_and_pruning_one_event_in_one_commit(store, some):
    """EVT-07, EVT-14: the erasure comes first, and both are on record."""
    store.append("order/a", some(3))
    erasure, cut = upkeep.erasure_of(store.read_stream("order/a")[0]), upkeep.cut_of(store, "order/a", 2)
    named = [upkeep.erased_fact(erasure), upkeep.pruned_fact(cut)]
    store.record(named, maintenance=Maintenance(erasures=(erasure,), cuts=(cut,)))
    assert verify(store.log).problems == []


def test_a_retried_snapshot_is_the_one_that_was_made(store, some):
    """A retry after an unknown outcome finds the fact and the body, and changes neither."""
    store.append("order/a", some(1))
    made = upkeep.snapshot(store, "order/a")
    store.record([upkeep.snapshot_fact(made)], maintenance=Maintenance(snapshots=(made,)))
    assert store.log.snapshots.ids() == [made.id]
    assert verify(store.log).problems == []


def test_a_store_opened_for_reading_maintains_nothing(store, reopen, some):
    """A read-only handle neither reclaims nor forgets, and a closed one says that it is closed."""
    store.append("order/a", some(1))
    reader = reopen(readonly=True)
    for use in (
        lambda log: log.reclaim(compress_before=None, progress=lambda done: None),
        lambda log: log.commands.forget(before=9, limit=1),
    ):
        with pytest.raises(errors.ReadOnly):
            use(reader.log)
    store.close()
    with pytest.raises(errors.StoreClosed):
        store.log.commands.forget(before=9, limit=1)


def test_a_snapshot_row_has_the_fields_of_its_run(store, some):
    """EVT-10: run_id, last_event_id, state_payload and created_at are filled; a diff holds its patch and base."""
    store.append("order/x", some(4))
    store.append("run/7f3a", some(3))
    full = upkeep.snapshot(store, "run/7f3a", b'{"n":3}', seq=2)
    upkeep.snapshot(store, "run/7f3a", b"[]", kind="diff", base=full.id)
    whole = msgspec.structs.replace(upkeep.snapshot_of(store, "order/x", b"{}"), stream="", seq=0, position=6)
    _, fact = upkeep.snapshot_fact(msgspec.structs.replace(whole, stream="order/x"))
    store.record([(facts.STORE_SNAPSHOTS, fact)], maintenance=Maintenance(snapshots=(whole,)))
    with store.log._database.reading() as connection:
        columns = "run_id, last_event_id, state_payload, created_at, kind, base, body_bytes"
        rows = connection.execute(f"SELECT {columns} FROM snapshots ORDER BY id").fetchall()
    assert [row[:3] for row in rows] == [("7f3a", 6, b'{"n":3}'), ("7f3a", 7, b"[]"), (None, 6, b"{}")]
    assert [row[4:] for row in rows] == [("full", None, 7), ("diff", full.id, 2), ("full", None, 2)]
    assert rows[0][3] == full.made


@pytest.mark.parametrize(
    "question",
    [
        "SELECT 1 FROM pruned WHERE id = zeroblob(16)",
        "SELECT through FROM cuts WHERE stream = 'a' ORDER BY through DESC LIMIT 1",
        "SELECT max(last_position) FROM cuts",
        "SELECT number FROM commands WHERE recorded < 5 ORDER BY recorded LIMIT 9",
        "SELECT command FROM command_ranges WHERE stream = 'a' AND last >= 5 AND last < 100",
    ],
)
def test_maintenance_is_looked_up_by_index(store, question):
    """LH-18: every commit and read is answered by an index, however much was pruned or recorded."""
    with store.log._database.reading() as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}"))
    assert "SEARCH" in plan
    assert "USE TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    "wrong",
    [{}, {"first_position": 1}, {"first_position": 3}, {"count": 2}, {"fact_position": None}],
    ids=["nothing", "an earlier beginning", "a later beginning", "no more events", "an older fact"],
)
def test_a_cut_continues_the_one_before(maintained, path, wrong):
    """EVT-05: even with a fact that names it, a cut keeps the start of the first one, and continues its count."""
    cut = upkeep.cut_of(maintained, "order/a", 4)
    (done,) = maintained.record([upkeep.pruned_fact(cut)])
    older = maintained.read_stream(facts.stream_about("order/a"))[1].position
    values = msgspec.structs.asdict(cut) | {"fact_position": done.position} | wrong
    values["fact_position"] = values["fact_position"] or older
    raw = sqlite3.connect(path)
    columns = (*msgspec.structs.asdict(cut), "fact_position")
    statement = f"INSERT INTO cuts VALUES ({', '.join(f':{name}' for name in columns)})"
    if wrong:
        with pytest.raises(sqlite3.IntegrityError, match="a cut "):
            raw.execute(statement, values)
    else:
        assert raw.execute(statement, values).rowcount == 1
    raw.close()


def test_facts_are_not_cut_though_a_fact_says_so(maintained, path):
    """EVT-05: a control fact about control facts does not delete them."""
    about = facts.stream_about("order/a")
    cut = upkeep.cut_of(maintained, about, 1)
    (done,) = maintained.record([upkeep.pruned_fact(cut)])
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never cut"):
        raw.execute("INSERT INTO cuts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*msgspec.structs.astuple(cut), done.position))
    raw.close()


def test_a_forgotten_command_takes_its_ranges_along(maintained):
    """CP-06: nothing is left of it, so its number may be used again."""
    log = maintained.log
    assert len(log.commands.touching("order/a", 5)) == 1
    assert log.commands.forget(before=9, limit=9) == 1
    with log._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM command_ranges").fetchone() == (0,)
