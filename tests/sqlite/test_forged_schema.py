"""Forged triggers and counters in the file: appends are refused, and not lost."""

from __future__ import annotations

import itertools
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, Store, errors, match
from tallystick.engines.sqlite import migrations
from tallystick.engines.tables import schema
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep

NAMES = ("sqliteXignore", "sqlite_ignore", "SQLITE_sequence2", "ignore", "sqlite_autoindex_events_9")
_TRIGGER = "CREATE TRIGGER {} BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END"


def _forge(path: str, name: str) -> None:
    """Write a trigger into the schema, also one with a name that SQLite reserves for itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        sql = _TRIGGER.format(name)
        if not name.lower().startswith("sqlite_"):
            raw.execute(sql)
            return
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("INSERT INTO sqlite_master VALUES ('trigger', ?, 'events', 0, ?)", (name, sql))
        raw.execute("PRAGMA schema_version = 4711")


@pytest.mark.security
@pytest.mark.parametrize("name", NAMES)
def test_a_trigger_that_leaves_events_out_is_found_at_opening(
    path: str, reopen: Callable[..., Store], name: str
) -> None:
    """SAFE-01: under any name it would make appends acknowledged and not stored."""
    with reopen() as store:
        store.append("order/a", NewEvent("thing.done", {}))
    _forge(path, name)
    store = reopen()
    with pytest.raises(errors.Damaged, match=name):
        store.append("order/a", NewEvent("thing.done", {}))
    assert [problem.reason for problem in verify(store.log).problems if problem.what == "schema"] == [
        f"{name} does not belong to it"
    ]
    assert len(list(store.events())) == 1


@pytest.mark.security
@pytest.mark.parametrize("count", [1, 5, 200])
@pytest.mark.parametrize("name", NAMES)
def test_a_trigger_that_is_added_under_a_writer_stops_its_appends(
    path: str, store: Store, name: str, count: int
) -> None:
    """SAFE-01: an open handle notices it too, and acknowledges nothing."""
    store.append("order/a", NewEvent("thing.done", {}))
    _forge(path, name)
    with pytest.raises(errors.TallyError):
        store.append("order/a", [NewEvent("thing.done", {})] * count)
    assert store.head() == 1
    assert not verify(store.log).ok


@pytest.mark.security
@pytest.mark.parametrize("name", sorted(migrations.expected_schema()))
def test_a_definition_that_was_changed_is_found_at_opening(path: str, reopen: Callable[..., Store], name: str) -> None:
    """SAFE-01: one changed letter in any definition stops appends, whichever statement would use it."""
    with reopen() as store:
        store.append("order/a", NewEvent("thing.done", {}))
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        (sql,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        last = sql.rindex("position") if "position" in sql else max(map(sql.rfind, "aeiou"))
        changed = f"{sql[:last]}q{sql[last + 1 :]}"
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (changed, name))
        raw.execute("PRAGMA schema_version = 4711")
    for readonly in (False, True):
        with suppress(errors.Damaged, errors.ReadFailed), reopen(readonly=readonly) as store:
            assert not verify(store.log).ok
            with pytest.raises(errors.TallyError):
                store.append("order/a", NewEvent("thing.done", {}))


@pytest.mark.security
def test_events_that_were_left_out_are_counted(path: str, store: Store) -> None:
    """SAFE-01: rows that were not stored are not acknowledged, even without the authorizer."""
    store.append("order/a", NewEvent("thing.done", {}))
    store.log._database.writer._connection.set_authorizer(None)  # type: ignore[attr-defined]
    _forge(path, "quiet")
    for count in (1, 5, 200):
        with pytest.raises(errors.Damaged, match="were left out"):
            store.append("order/a", [NewEvent("thing.done", {})] * count)
    assert len(store.read_stream("order/a")) == 1


def test_statistics_of_sqlite_are_not_damage(path: str, reopen: Callable[..., Store]) -> None:
    """ANALYZE creates a table that belongs to SQLite. It is recognised by its definition."""
    reopen().close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("ANALYZE")
        assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone() == (1,)
        assert "sqlite_stat1" not in schema.definitions(raw)
    store = reopen()
    assert store.append("order/a", NewEvent("thing.done", {})).seq == 1
    assert verify(store.log).ok


VALUES = ("many", b"\xff\xfe", None)


@pytest.mark.slow
@pytest.mark.security
@pytest.mark.parametrize(
    "table",
    ["store", "cuts", "streams", "snapshots", "events", "leases", "writers", "event_tags", "pruned", "pruned_tags"],
)
def test_a_value_of_another_type_is_an_error_with_a_name(tmp_path: Path, table: str) -> None:
    """SAFE-05: a damaged row may hold anything. Answers are right or our errors; a wrong list does not verify."""
    sample = tmp_path / "sample.db"
    with tallystick.open(f"sqlite:{sample}") as store:
        store.append("order/a", [NewEvent("thing.done", {"n": n}, tags=["a:1", f"n:{n}"]) for n in range(6)])
        store.append("run/1", NewEvent("step.done", {}))
        upkeep.snapshot(store, "order/a", b'{"n":6}')
        upkeep.prune(store, "order/a", 3)
        served, listed = ([ask() for ask in asked(store)] for asked in (_served, _listed))
    with closing(sqlite3.connect(sample)) as raw:
        columns = [row[1] for row in raw.execute("SELECT * FROM pragma_table_info(?)", (table,))]
    for number, (column, value) in enumerate(itertools.product(columns, VALUES)):
        path = f"{tmp_path}/{number}.db"
        shutil.copyfile(sample, path)
        _put(path, table, column, value)
        for readonly in (True, False):
            with suppress(errors.TallyError), tallystick.open(f"sqlite:{path}", readonly=readonly) as store:
                _ask_everything(store, served, listed)


def _served(store: Store) -> list[Callable[[], object]]:
    """Answers of which only one is right."""
    return [
        lambda: list(store.events(over_pruned=True)),
        lambda: store.read_stream("order/a", after=3),
        lambda: store.stream_head("order/a"),
    ]


def _listed(store: Store) -> list[Callable[[], object]]:
    """Answers that repeat a table. Verification compares the table with the events."""
    return [
        lambda: store.log.streams(limit=10),
        lambda: store.log.cuts(limit=10),
        store.log.snapshots.ids,
        lambda: list(store.log.pruned_events()),
        lambda: store.consult(match(tags=["n:5"])).events,
        lambda: store.log.matches(Condition(match(tags=["a:1"])), limit=9),
    ]


def _ask_everything(store: Store, served: list[object], listed: list[object]) -> None:
    for ask, right in zip(_served(store), served, strict=True):
        with suppress(errors.TallyError):
            assert ask() == right
    for ask, right in zip(_listed(store), listed, strict=True):
        with suppress(errors.TallyError):
            assert ask() == right or verify(store.log).problems
    for act in (store.report, lambda: store.append("run/1", NewEvent("step.done", {}))):
        with suppress(errors.TallyError):
            act()


def _put(path: str, table: str, column: str, value: object) -> None:
    """Store a value without triggers and types. The definitions are removed, and restored unchanged."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        kept = raw.execute("SELECT * FROM sqlite_master WHERE type = 'trigger'").fetchall()
        (sql,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        loose = re.sub(r"CHECK \((?:[^()]|\([^()]*\))*\)|NOT NULL|STRICT,?|\bTEXT\b|\bBLOB\b", "", sql)
        loose = re.sub(r"\bINTEGER\b(?! PRIMARY)", "", loose).rstrip(" ,")
        raw.execute("DELETE FROM sqlite_master WHERE type = 'trigger'")
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (loose, table))
        raw.execute("PRAGMA schema_version = 4712")
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        with suppress(sqlite3.IntegrityError):  # of a key in several rows, and of one that must be a number
            raw.execute(
                f"UPDATE {table} SET {column} = ? WHERE {column} = (SELECT max({column}) FROM {table})", (value,)
            )
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
        raw.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", kept)
        raw.execute("PRAGMA schema_version = 4713")


@pytest.mark.security
@pytest.mark.parametrize("counter", [2**40, 2**63 - 1, 3, 0, -5, "many", 1.5, None])
def test_a_counter_that_is_not_at_the_last_event_is_named(
    path: str, reopen: Callable[..., Store], counter: object
) -> None:
    """SAFE-01: the assigned positions are known from the events. A counter far ahead costs no time or memory."""
    store = reopen()
    store.append("order/a", [NewEvent("thing.done", {})] * 10)
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'events'", (counter,))
    said = []
    for readonly in (True, False):
        try:
            with tallystick.open(f"sqlite:{path}", readonly=readonly) as store:
                assert store.holes()
                assert not verify(store.log).ok
                with pytest.raises(errors.TallyError):
                    list(store.events())
                with pytest.raises(errors.TallyError):
                    store.append("order/a", NewEvent("thing.done", {}))
        except errors.Damaged as damage:
            said.append(damage.reason)
    assert all("counter" in reason for reason in said)
