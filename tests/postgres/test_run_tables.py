"""The tables that runs fill, in PostgreSQL: numbered steps create them with the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tallystick
from tallystick import Store, errors, runs
from tallystick.engines.postgres import run_tables
from tallystick.runs import Workflow, table_filling, tables
from tallystick.store.verify import verify

TABLES = ("runs", "sessions", "nodes", "jobs", "job_attempts")
THERE = "SELECT tablename FROM pg_tables WHERE schemaname = 'tally_views' ORDER BY 1"


@pytest.fixture
def crew(login: Callable[..., str]) -> Iterator[Store]:
    """The store, for a login that may only run projections."""
    with tallystick.open(login("tally_projector")) as store:
        yield store


def _run(store: Store, place: Path, name: str) -> None:
    flow = Workflow("two")
    flow.add("a", lambda work: None)
    flow.add("b", lambda work: None, after=["a"])
    runner = runs.RunnerInfo(actor="ada", worker="press-1", attestation=runs.Attestation("tpm2", b"quote"))
    runs.start(store, flow, run=name, workspace=str(place / name), runner=runner)


def _said(store: Store) -> dict[str, list[dict[str, Any]]]:
    found = tables.rows(table_filling.sealed(store, run) for run in runs.run_ids(store))
    keys = {"job_attempts": lambda row: (row["job_id"], row["attempt"])}
    return {table: sorted(getattr(found, table), key=keys.get(table, lambda row: row["id"])) for table in TABLES}


def _stored(store: Store) -> dict[str, list[Any]]:
    assert store.log.run_tables is not None
    return {table: store.log.run_tables.read(table) for table in TABLES}


def test_the_tables_come_with_the_first_run(
    store: Store, crew: Store, connect: Callable[..., psycopg.Connection[Any]], tmp_path: Path
) -> None:
    """EVT-10: a store without runs has no tables; the first run creates them, and they match a replay."""
    runs.fill_tables(crew)
    assert _stored(crew) == {table: [] for table in TABLES}
    assert connect().execute(THERE).fetchall() == []
    _run(store, tmp_path, "one")
    runs.fill_tables(crew)
    assert {name for (name,) in connect().execute(THERE).fetchall()} == {*TABLES, "run_steps"}
    _run(store, tmp_path, "two")
    runs.fill_tables(crew, run="two")
    assert _stored(crew) == _said(crew)
    assert [len(rows) for rows in _stored(crew).values()] == [2, 2, 1, 4, 4]
    assert all(row["fingerprint"] for row in _stored(crew)["runs"]), "a finished run is sealed by itself"
    runs.fill_tables(crew)
    assert _stored(crew) == _said(crew), "filling them again changes nothing"
    assert verify(store.log).ok


def test_older_tables_are_brought_forward_without_loss(
    store: Store,
    crew: Store,
    connect: Callable[..., psycopg.Connection[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EVT-10: steps are numbered, taken once and in order; rows of an older step stay."""
    every = run_tables.steps()
    assert [step.name for step in every] == ["init", "orchestration", "hardware", "replay"]
    monkeypatch.setattr(run_tables, "steps", lambda: every[:2])
    with crew.log.view_tables.writing() as session:
        run_tables._migrate(session)
        session.execute("INSERT INTO runs VALUES ('old', 'acme', 'finished', 1, 2)")
    monkeypatch.undo()
    _run(store, tmp_path, "one")
    runs.fill_tables(crew)
    assert [row["id"] for row in _stored(crew)["runs"]] == ["old", "one"]
    taken = connect().execute("SELECT number, name FROM tally_views.run_steps ORDER BY 1").fetchall()
    assert taken == [(step.number, f"{step.number:03d}_{step.name}") for step in every]


def test_a_login_that_may_own_no_tables_records_runs_without_them(store: Store, tmp_path: Path) -> None:
    """EVT-10: a run is recorded without tables, and a login that is not a projector gets an error that says why."""
    assert store.log.run_tables is None
    _run(store, tmp_path, "one")
    assert runs.load(store, "one").state.run_state == "finished"
    with pytest.raises(errors.UnsupportedCapability):
        runs.fill_tables(store)
