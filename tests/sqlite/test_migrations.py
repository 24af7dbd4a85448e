"""Older and newer formats."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.engines.sqlite import migrations, place, statements
from tallystick.engines.sqlite.view import SqliteView
from tallystick.event import canonical, chain, ids
from tallystick.store.verify import verify
from tallystick.testing import upkeep

LATEST = migrations.latest()
OLDER = [step.number for step in migrations.known()[:-1]]
SEED_FIELDS = {
    "runs": {"id", "tenant_id", "status", "fingerprint"},
    "events": {"position", "stream", "type", "payload"},
    "run_events": {"id", "run_id", "type", "payload"},
    "snapshots": {"run_id", "last_event_id", "state_payload", "created_at"},
    "audit": {"tenant_id", "run_id", "type", "payload"},
    "sessions": {"id"},
    "jobs": {"id", "run_id"},
    "job_attempts": {"job_id", "attempt"},
    "nodes": {"id", "attestation"},
}


def _make_old(path: str, version: int, rows: list[tuple]) -> None:
    """A database as that format's version left it, with events in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA application_id = {place.APPLICATION_ID}")
    connection.execute("PRAGMA journal_mode = WAL")
    migrations.migrate(connection, profile="lighthouse", clock=lambda: 5, upto=version)
    connection.executemany(statements.named("insert_event"), [(*row, 7, "acme", None, None) for row in rows])
    connection.execute("INSERT INTO runs (id, status, created_at, updated_at) VALUES ('r1', 'done', 1, 2)")
    if version >= 6:
        heads = {row[1]: (row[1], row[2], row[10], "acme") for row in rows}
        connection.executemany(statements.named("move_head"), heads.values())
        connection.execute("INSERT INTO sources VALUES ('s', 20)")
    connection.close()


def _rows() -> list[tuple]:
    drafts = []
    for number in range(20):
        payload = canonical.encode({"n": number})
        meta = canonical.encode({"org": "acme", "source": "s", "source_seq": number + 1, "correlation_id": "c"})
        drafts.append(
            ("thing.done", 1, ids.default.mint(1, time_ns=1)[0], 1, payload, meta, chain.checksum(payload), None)
        )
    first = chain.extend("order/a", drafts[:12], seq=0, position=1, previous=chain.GENESIS)
    return first + chain.extend("order/b", drafts[12:], seq=0, position=13, previous=chain.GENESIS)


_OLDER_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("SELECT count(*) FROM events").fetchone()
print("open", flush=True)
sys.stdin.readline()
connection.close()
"""


@pytest.mark.parametrize("version", OLDER)
def test_an_older_store_that_somebody_has_open_is_not_upgraded(path, reopen, spawn, version):
    """SAFE-02: an older version keeps no mark and not all of its locks; SQLite's own say that somebody is there."""
    _make_old(path, version, _rows())
    before = Path(path).read_bytes()
    child = spawn(_OLDER_WRITER, path)
    assert child.stdout.readline() == "open\n"
    with pytest.raises(errors.StoreLocked, match="older version"):
        reopen(busy_ms=200)
    assert Path(path).read_bytes() == before
    child.stdin.write("\n")
    child.stdin.flush()
    child.wait()
    assert reopen().head() == 20


@pytest.mark.parametrize("version", OLDER)
def test_an_older_store_is_upgraded_without_loss(path, reopen, some, version):
    """EVT-10: every older format opens, holds every event, verifies, and goes on where it was."""
    rows = _rows()
    _make_old(path, version, rows)
    store = reopen()
    assert [event.row for event in store.read().events] == rows
    assert verify(store.log).problems == []
    assert store.report().recovered == (f"migrated from format {version} to {LATEST}",)
    assert store.stream_head("order/a").org == "acme"
    with pytest.raises(errors.SourceRepeated):
        store.append("order/a", some(1, org="acme", source="s", source_seq=20))
    assert store.append("order/a", some(1, source="s"), expected=12).position == 21
    assert store.log.recorded_at(1) == 7
    with store.log._database.reading() as connection:
        assert connection.execute("SELECT id, status FROM runs").fetchall() == [("r1", "done")]


@pytest.mark.parametrize("version", OLDER)
def test_an_upgraded_store_can_be_maintained(path, reopen, version):
    """EVT-10, EVT-07: what an older format recorded can be snapshotted, pruned and erased, and stays verified."""
    _make_old(path, version, _rows())
    store = reopen()
    made = upkeep.snapshot(store, "order/a")
    upkeep.prune(store, "order/a", 5)
    upkeep.erase(store, "order/a", 7)
    store.log.reclaim(compress_before=None, progress=lambda done: None)
    store.close()
    again = reopen()
    assert (again.log.snapshots.ids(), again.floor()) == ([made.id], 5)
    assert [event.payload is None for event in again.read_stream("order/a", after=5)] == [False, True, *[False] * 5]
    assert verify(again.log).problems == []


def test_checkpoints_and_leases_come_along_to_the_newest_format(path, reopen):
    """EVT-10: the step that lets a log be maintained changes nothing else."""
    _make_old(path, 7, _rows())
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO leases VALUES ('run/1', 4, NULL, NULL, NULL, NULL)")
    raw.execute("INSERT INTO checkpoints SELECT 'lister', store_id, 12, 0, x'' FROM store")
    raw.commit()
    raw.close()
    store = reopen()
    assert store.load_checkpoint("lister") == 12
    store.acquire_lease("run/1")
    assert store.log._holder.held == {"run/1": 5}


def test_an_upgraded_store_keeps_the_identity_it_then_gets(path, reopen):
    """EVT-10: a format from before identities gets one once, and keeps it."""
    _make_old(path, 3, _rows())
    first = reopen(profile="lighthouse")
    identity = first.log.store_id
    first.close()
    assert reopen().log.store_id == identity
    assert reopen().log.profile == "lighthouse"


def test_an_older_store_is_not_upgraded_by_a_reader(path):
    """EVT-10: opening for reading changes nothing, and says what is needed."""
    _make_old(path, 2, _rows())
    with pytest.raises(errors.OlderFormat) as refusal:
        tallystick.open(f"sqlite:{path}", readonly=True)
    assert (refusal.value.found, refusal.value.known) == (2, LATEST)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_newer_store_is_refused_and_left_alone(path, reopen, some, readonly):
    """EVT-10: a format from the future is not touched."""
    store = reopen()
    store.append("order/a", some(1))
    store.close()
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {LATEST + 1}")
    raw.close()
    with pytest.raises(errors.NewerFormat) as refusal:
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert (refusal.value.found, refusal.value.known) == (LATEST + 1, LATEST)
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (LATEST + 1,)
    raw.close()


def test_a_step_that_fails_leaves_the_step_before(path, monkeypatch):
    """EVT-10: each step is its own transaction, together with its number."""
    _make_old(path, 4, _rows())
    broken = [
        step if step.number != 6 else migrations.Migration(6, "broken", step.sql + "INSERT INTO nowhere VALUES (1);\n")
        for step in migrations.known()
    ]
    monkeypatch.setattr(migrations, "known", lambda: tuple(broken))
    with pytest.raises(errors.Unavailable):
        tallystick.open(f"sqlite:{path}")
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (5,)
    assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'streams'").fetchone() == (0,)
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (20,)
    raw.close()


@pytest.mark.parametrize("table", SEED_FIELDS)
def test_the_tables_have_the_key_fields(store, table):
    """EVT-10: the tables of the lifecycle and their key fields are there."""
    with store.log._database.reading() as connection:
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    assert columns >= SEED_FIELDS[table]


def test_the_audit_trail_is_the_control_events(store, some):
    """EVT-05, EVT-10: `audit` shows each control fact with its tenant and run, and nothing else."""
    store.append("order/a", some(1))
    pruned = NewEvent("tally.run.pruned", {"before": 3, "stream": "run/7f3a"}, meta={"org": "acme"})
    store.record([("tally.runs/prunes", pruned)])
    store.record([("tally.store/repairs", NewEvent("tally.store.repaired", {"note": '"stream":"run/x"'}))])
    with store.log._database.reading() as connection:
        rows = connection.execute("SELECT id, tenant_id, run_id, type, payload FROM audit ORDER BY id").fetchall()
    assert rows == [
        (2, "acme", "7f3a", "tally.run.pruned", '{"before":3,"stream":"run/7f3a"}'),
        (3, None, None, "tally.store.repaired", '{"note":"\\"stream\\":\\"run/x\\""}'),
    ]


def test_run_events_are_those_of_runs(store, some):
    """EVT-10: `run_events` reads the events of a run by its id."""
    store.append("order/a", some(1))
    store.append("run/7f3a", some(2, org="acme"))
    with store.log._database.reading() as connection:
        rows = connection.execute("SELECT id, run_id, seq, tenant_id FROM run_events ORDER BY id").fetchall()
    assert rows == [(2, "7f3a", 1, "acme"), (3, "7f3a", 2, "acme")]


def test_numbers_of_a_source_come_along_with_their_org(path, reopen, some):
    """CP-10, LH-03: numbers go to the org of their events; those that only pruned events had count for all."""
    _make_old(path, 8, _rows())
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO sources VALUES ('old', 5)")
    raw.commit()
    raw.close()
    store = reopen()
    with store.log._database.reading() as connection:
        head = SqliteView(connection).source_head
        heads = [head(org, source) for org in ("acme", "", "x") for source in ("s", "old")]
    assert heads == [20, 5, 0, 5, 0, 5]
    store.append("order/z", some(1, org="x", source="s", source_seq=1))
    with pytest.raises(errors.SourceRepeated):
        store.append("order/z", some(1, org="x", source="old", source_seq=5))
