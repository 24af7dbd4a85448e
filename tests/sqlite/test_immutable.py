"""Attacks on recorded events: through our own connection, and through one with other settings."""

from __future__ import annotations

import sqlite3

import pytest

from tallystick import NewEvent
from tallystick.store.verify import verify

_ROW = "SELECT position, stream, seq, type, version, id, time, {payload}, meta, checksum, link, signature, recorded, org, app, env FROM events WHERE seq = 2"  # noqa: E501
_FORGED = _ROW.format(payload="CAST('{}' AS BLOB)")
_NEW_POSITION = _FORGED.replace("SELECT position", "SELECT position + 100")
_NEW_ID = _NEW_POSITION.replace(" id,", " randomblob(16),")
_NEW_SEQ = _FORGED.replace(" seq, type", " seq + 100, type").replace(" id,", " randomblob(16),")

CHANGES = {
    "update": "UPDATE events SET payload = x'7b7d' WHERE seq = 2",
    "update or replace": "UPDATE OR REPLACE events SET seq = 1 WHERE seq = 2",
    "delete": "DELETE FROM events WHERE seq = 2",
    "delete all": "DELETE FROM events",
    "replace by position": f"INSERT OR REPLACE INTO events {_NEW_SEQ}",
    "replace by id": f"INSERT OR REPLACE INTO events {_NEW_POSITION.replace(' seq, type', ' seq + 100, type')}",
    "replace by seq": f"REPLACE INTO events {_NEW_ID}",
    "replace whole": f"REPLACE INTO events {_FORGED}",
    "move a head back": "UPDATE streams SET seq = 1",
    "move a head aside": "UPDATE streams SET seq = seq + 1, stream = 'order/b'",
    "change an org": "UPDATE streams SET seq = seq + 1, org = 'evil'",
    "replace a head": "REPLACE INTO streams VALUES ('order/a', 1, zeroblob(32), NULL)",
    "forget a stream": "DELETE FROM streams",
    "change the identity": "UPDATE store SET profile = 'run'",
    "forget the identity": "DELETE FROM store",
    "weaken a lease": "UPDATE leases SET number = 0",
    "forget a lease": "DELETE FROM leases",
    "forget a source": "DELETE FROM org_sources",
    "forget a tag": "DELETE FROM event_tags",
    "change a tag": "UPDATE event_tags SET tag = 'b:1'",
    "change the org of a tag": "UPDATE event_tags SET org = 'evil'",
    "replace a posting": "REPLACE INTO event_tags SELECT tag, type, position, 'evil' FROM event_tags",
    "index a tag of nothing": "INSERT INTO event_tags VALUES ('a:1', 'thing.done', 99, NULL)",
    "index a tag of another type": "INSERT INTO event_tags VALUES ('a:1', 'thing.lost', 1, 'acme')",
    "index a tag of another org": "INSERT INTO event_tags VALUES ('a:1', 'thing.done', 1, 'evil')",
    "keep a tag of what is not pruned": "INSERT INTO pruned_tags VALUES (1, 'a:1')",
}
TAMPERING = {
    "drop a trigger": "DROP TRIGGER events_are_not_deleted",
    "drop the table": "DROP TABLE events",
    "drop an index": "DROP INDEX events_by_type",
    "drop a view": "DROP VIEW audit",
    "alter": "ALTER TABLE events RENAME TO past",
    "add a column": "ALTER TABLE events ADD COLUMN extra TEXT",
    "writable schema": "PRAGMA writable_schema = ON",
    "edit the schema": "DELETE FROM sqlite_master WHERE type = 'trigger'",
    "weaken triggers": "PRAGMA recursive_triggers = OFF",
    "weaken syncs": "PRAGMA synchronous = OFF",
    "leave the write-ahead log": "PRAGMA journal_mode = DELETE",
    "lie about the format": "PRAGMA user_version = 1",
    "reuse positions": "UPDATE sqlite_sequence SET seq = 0",
    "attach": "ATTACH DATABASE ':memory:' AS other",
    "copy away": "VACUUM INTO ':memory:'",
    "new trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
    "new temporary trigger": "CREATE TEMP TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
    "new table": "CREATE TABLE extra (x)",
    "new identity": "INSERT INTO store VALUES (2, randomblob(16), 'plain', 0)",
    "reindex": "REINDEX events",
}


@pytest.fixture
def filled(store, some):
    """A store with a stream that has an org, a source and a lease."""
    store.append("order/a", some(3, org="acme"))
    store.append("order/s", some(1, source="s", source_seq=1))
    store.append("run/1", NewEvent("thing.done", {}, tags=["a:2"]))
    return store


def _unchanged(store, before) -> bool:
    return store.read().events == before and verify(store.log).ok


@pytest.mark.parametrize("attack", [*CHANGES.values(), *TAMPERING.values()], ids=[*CHANGES, *TAMPERING])
def test_the_appending_connection_cannot_change_the_past(filled, attack):
    """CP-05, EVT-01: no statement that is smuggled into our own connection changes a recorded event."""
    before = filled.read().events
    connection = filled.log._database.writer._connection
    with pytest.raises(sqlite3.Error):
        connection.execute(attack)
    assert _unchanged(filled, before)


@pytest.mark.parametrize("attack", CHANGES.values(), ids=CHANGES)
def test_triggers_hold_against_any_other_connection(filled, path, attack):
    """A connection with SQLite's default settings (recursive_triggers off) cannot change recorded rows either."""
    before = filled.read().events
    other = sqlite3.connect(path, isolation_level=None)
    try:
        with pytest.raises(sqlite3.IntegrityError):
            other.execute(attack)
    finally:
        other.close()
    assert _unchanged(filled, before)


def test_appends_still_pass_after_an_attack(filled, some):
    """A refused attack does not stop the store."""
    with pytest.raises(sqlite3.Error):
        filled.log._database.writer._connection.execute("DROP TABLE events")
    assert filled.append("order/a", some(1)).seq == 4


@pytest.mark.parametrize(
    ("forgery", "what"),
    [
        ("DROP TRIGGER events_are_not_deleted", "schema"),
        ("DROP TRIGGER events_are_not_changed; UPDATE events SET payload = x'7b7d' WHERE seq = 2", "checksum"),
        ("DROP TRIGGER events_are_not_changed; UPDATE events SET org = 'evil' WHERE seq = 2", "scope"),
        (
            "DROP TRIGGER events_are_not_deleted; DROP TRIGGER pruned_events_are_noted;"
            "DELETE FROM events WHERE seq = 2",
            "order",
        ),
        ("DROP TRIGGER streams_only_grow; UPDATE streams SET link = zeroblob(32)", "head"),
        ("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'events'", "sequence"),
        ("DROP VIEW audit; CREATE TABLE audit (tenant_id, run_id, type, payload)", "schema"),
        ("PRAGMA user_version = 6", "schema"),
    ],
)
def test_verify_finds_what_the_owner_of_the_file_forged(filled, path, forgery, what):
    """Anyone who can write the file can remove the triggers. Verification then reports what was changed."""
    other = sqlite3.connect(path, isolation_level=None)
    other.executescript(forgery)
    other.close()
    assert what in {problem.what for problem in verify(filled.log).problems}


@pytest.mark.parametrize(
    "replacement",
    [
        "INSERT OR REPLACE INTO store VALUES (1, zeroblob(16), 'community', 0)",
        "INSERT OR REPLACE INTO org_sources VALUES ('', 's', 0)",
        "INSERT OR REPLACE INTO org_sources VALUES ('', 's', 1)",
        "INSERT OR REPLACE INTO leases VALUES ('run/1', 1, NULL, NULL, NULL, NULL)",
    ],
    ids=["identity", "source back", "source again", "lease back"],
)
def test_a_plain_connection_cannot_replace_what_is_beside_the_events(filled, path, replacement):
    """CP-05, EVT-01: identity, sources and leases are not replaced, even where SQLite fires no trigger for it."""
    tables = ("store", "org_sources", "leases")
    filled.release_lease("run/1")
    filled.acquire_lease("run/1")  # its number is 2 now
    events = filled.read().events
    other = sqlite3.connect(path, isolation_level=None)
    try:
        before = [other.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
        assert all(before)
        with pytest.raises(sqlite3.IntegrityError):
            other.execute(replacement)
        assert [other.execute(f"SELECT * FROM {table}").fetchall() for table in tables] == before
    finally:
        other.close()
    assert _unchanged(filled, events)
    assert filled.append("order/s", NewEvent("thing.done", {}, meta={"source": "s", "source_seq": 2})).seq == 2
    assert filled.append("run/1", NewEvent("thing.done", {})).seq == 2
