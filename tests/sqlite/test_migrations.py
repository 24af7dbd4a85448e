"""Older and newer formats."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors, match
from tallystick.engines.sqlite import migrations, statements
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables import schema
from tallystick.event import canonical, chain, ids
from tallystick.store import row_checks
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tests.sqlite import older

LATEST = migrations.latest()
TOO_OLD = [1, older.FORMAT - 1]
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


def _make_old(path: str, rows: list[tuple], version: int = older.FORMAT) -> None:
    """A store of an older format, with events in it."""
    connection = older.create(path, profile="lighthouse", version=version)
    connection.executemany(statements.named("insert_event"), [(*row, 7, "acme", None, None) for row in rows])
    connection.execute("INSERT INTO runs (id, status, created_at, updated_at) VALUES ('r1', 'done', 1, 2)")
    heads = {row[1]: (row[1], row[2], row[10], "acme") for row in rows}
    connection.executemany(statements.named("move_head"), heads.values())
    connection.execute("INSERT INTO org_sources VALUES ('acme', 's', 20)")
    connection.close()


def _renumber(path: str, number: int) -> None:
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {number:d}")
    raw.close()


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


def test_an_older_store_that_somebody_has_open_is_not_upgraded(path, reopen, spawn):
    """SAFE-02: SQLite's own locks show that another process has it open."""
    _make_old(path, _rows())
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


@pytest.mark.parametrize("version", older.FORMATS)
def test_an_older_store_is_upgraded_without_loss(path, reopen, some, version):
    """EVT-10: a store of an older format opens, holds every event, verifies, and continues where it was."""
    rows = _rows()
    _make_old(path, rows, version)
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


@pytest.mark.parametrize("version", older.FORMATS)
def test_an_upgraded_store_has_the_schema_of_a_new_one(path, reopen, tmp_path, version):
    """EVT-10: the steps lead to what `sql/schema/` creates, object by object."""
    _make_old(path, _rows(), version)
    tallystick.open(f"sqlite:{tmp_path}/new.db").close()
    reopen().close()
    old, new = (sqlite3.connect(each) for each in (path, f"{tmp_path}/new.db"))
    try:
        assert list(schema.differences(schema.definitions(old), schema.definitions(new))) == []
    finally:
        old.close()
        new.close()


def test_definitions_can_be_compared_without_their_spaces():
    """A comment would end at a line break, so no object has one."""
    assert not [name for name, sql in migrations.expected_schema().items() if "--" in sql or "/*" in sql]


@pytest.mark.security
@pytest.mark.parametrize(
    ("version", "name"),
    [
        (16, "streams_only_grow"),
        (16, "cuts_only_grow"),
        (16, "skipped_are_behind_the_end"),
        (17, "streams_only_grow"),
        (17, "pruned_events_are_noted"),
    ],
)
def test_a_step_does_not_hide_that_a_trigger_was_removed(path, reopen, version, name):
    """SAFE-01: a store whose schema is not that of its format is not migrated, and not changed."""
    _make_old(path, _rows(), version)
    raw = sqlite3.connect(path)
    raw.executescript(f"DROP TRIGGER {name}; PRAGMA wal_checkpoint(TRUNCATE);")
    raw.close()
    before = Path(path).read_bytes()
    with pytest.raises(
        errors.Damaged, match=f"not migrated from format {version}: its tables, indexes, triggers or views"
    ):
        reopen()
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("version", TOO_OLD)
def test_a_store_that_is_too_old_is_refused_and_left_alone(path, version, readonly):
    """EVT-10: the refusal names the commands that move its events to a new store."""
    _make_old(path, _rows())
    _renumber(path, version)
    before = Path(path).read_bytes()
    with pytest.raises(errors.FormatTooOld, match="tally export") as refusal:
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert (refusal.value.found, refusal.value.oldest) == (version, older.FORMAT)
    assert Path(path).read_bytes() == before


def test_an_upgraded_store_can_be_maintained(path, reopen):
    """EVT-10, EVT-07: what an older format recorded can be snapshotted, pruned and erased, and stays verified."""
    _make_old(path, _rows())
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


def test_a_migration_keeps_checkpoints_and_leases(path, reopen):
    """EVT-10: a migration changes no rows."""
    _make_old(path, _rows())
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO leases VALUES ('run/1', 4, NULL, NULL, NULL, NULL)")
    (store_id,) = raw.execute("SELECT store_id FROM store").fetchone()
    check = row_checks.of_checkpoint(Checkpoint("lister", store_id, 12, 0, b""))
    raw.execute("INSERT INTO checkpoints VALUES ('lister', ?, 12, 0, x'', ?)", (store_id, check))
    raw.commit()
    raw.close()
    store = reopen()
    assert store.load_checkpoint("lister") == 12
    store.acquire_lease("run/1")
    assert store.log._holder.held == {"run/1": 5}


def test_an_upgraded_store_keeps_its_identity(path, reopen):
    """EVT-10: a migration makes no other store of it."""
    _make_old(path, _rows())
    raw = sqlite3.connect(path)
    (identity,) = raw.execute("SELECT store_id FROM store").fetchone()
    raw.close()
    assert reopen().log.store_id == identity
    assert reopen().log.profile == "lighthouse"


def test_an_older_store_is_not_upgraded_by_a_reader(path):
    """EVT-10: opening for reading changes nothing, and says what is needed."""
    _make_old(path, _rows())
    with pytest.raises(errors.OlderFormat) as refusal:
        tallystick.open(f"sqlite:{path}", readonly=True)
    assert (refusal.value.found, refusal.value.known) == (older.FORMAT, LATEST)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_newer_store_is_refused_and_left_alone(path, reopen, some, readonly):
    """EVT-10: a format from the future is not touched."""
    store = reopen()
    store.append("order/a", some(1))
    store.close()
    _renumber(path, LATEST + 1)
    with pytest.raises(errors.NewerFormat) as refusal:
        tallystick.open(f"sqlite:{path}", readonly=readonly)
    assert (refusal.value.found, refusal.value.known) == (LATEST + 1, LATEST)
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (LATEST + 1,)
    raw.close()


def test_a_step_that_fails_leaves_the_step_before(path, monkeypatch):
    """EVT-10: each step is its own transaction, together with its number."""
    _make_old(path, _rows())
    broken = [step._replace(sql=step.sql + "INSERT INTO nowhere VALUES (1);\n") for step in migrations.steps()]
    monkeypatch.setattr(migrations, "steps", lambda: tuple(broken))
    with pytest.raises(errors.Unavailable):
        tallystick.open(f"sqlite:{path}")
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (older.FORMAT,)
    assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'cuts_only_grow'").fetchone() == (1,)
    assert raw.execute("SELECT count(*) FROM events").fetchone() == (20,)
    raw.close()


def test_an_upgrade_that_stopped_between_two_steps_is_continued(path, reopen, tmp_path, monkeypatch):
    """EVT-10: each step leads to the schema of its own format, from which the next one starts."""
    _make_old(path, _rows(), older.FORMATS[0])
    steps = migrations.steps()
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "steps", lambda: (steps[0], steps[1]._replace(sql="SELECT broken;\n")))
        with pytest.raises(errors.Unavailable):
            tallystick.open(f"sqlite:{path}")
    older.create(str(tmp_path / "other.db"), profile="plain", version=steps[0].number).close()
    found, expected = (sqlite3.connect(each) for each in (path, tmp_path / "other.db"))
    assert found.execute("PRAGMA user_version").fetchone() == (steps[0].number,)
    assert list(schema.differences(schema.definitions(found), schema.definitions(expected))) == []
    found.close()
    expected.close()
    assert verify(reopen().log).problems == []


def test_what_an_older_format_pruned_may_have_had_any_type(path, reopen, some):
    """TAG-03, EVT-10: its type was not kept, so conditions on types count it; it had no tags."""
    store = reopen()
    store.append("order/a", some(6))
    upkeep.prune(store, "order/a", 3)
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        (trigger,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'pruned_are_not_changed'").fetchone()
        raw.execute("DROP TRIGGER pruned_are_not_changed")
        raw.execute("UPDATE pruned SET type = NULL")
        raw.execute(trigger)
    store = reopen()
    assert verify(store.log).problems == []
    assert {(gone.type, gone.tags) for gone in store.log.pruned_events()} == {(None, ())}
    for counted in (match(types=["thing.other"]), match(types=["thing.other"]) | match(tags=["a:1"]), match()):
        assert store.log.matches(Condition(counted), limit=9)[:3] == [1, 2, 3]
        with pytest.raises(errors.HistoryPruned):
            store.consult(counted)
    store.append("order/b", some(1), unless=match(tags=["a:1"]))
    with pytest.raises(errors.ConditionFailed):
        store.append("order/b", some(1), unless=match(types=["thing.other"]))


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


def test_sequences_of_a_source_keep_their_org(path, reopen, some):
    """CP-10, LH-03: a sequence counts for the org of its events, or for all if its org is not known."""
    _make_old(path, _rows())
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
