"""The tables that runs fill: every row is what the events say, in SQLite and by definition."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store, errors, runs
from tallystick.runs import Workflow, table_filling, tables

TABLES = ("runs", "sessions", "nodes", "jobs", "job_attempts")
EVIDENCE = b"quote \x00\x01 of a trusted module"


@pytest.fixture
def filled(make_bench: Any) -> Any:
    """A SQLite store with a run that finished, one that failed and was resumed, and a fork."""
    bench = make_bench("tables", "sqlite")
    with bench.open(defaults={"org": "acme"}) as store:
        runner = runs.RunnerInfo(actor="ada", worker="press-1", attestation=runs.Attestation("tpm2", EVIDENCE))
        flow = bench.counting()
        runs.start(store, flow, run="good", workspace=str(bench.root / "good"), inputs=bench.inputs, runner=runner)
        failing(store, bench.root / "bad")
        runs.fork(store, "good", "total", child="fork", workspace=str(bench.root / "fork"))
        runs.resume(store, flow, "fork", runner=runs.RunnerInfo(actor="bob", worker="press-2"))
        yield store


def failing(store: Store, root: Path) -> None:
    """A run that fails once and is resumed by another worker."""
    left = [1]

    def shaky(work: Any) -> None:
        if left:
            left.pop()
            raise ValueError("not yet")

    flow = Workflow("shaky")
    flow.add("a", lambda work: None)
    flow.add("b", shaky, after=["a"])
    with pytest.raises(errors.RunFault):
        runs.start(store, flow, run="bad", workspace=str(root), runner=runs.RunnerInfo(actor="ada", worker="press-1"))
    runs.resume(store, flow, "bad", runner=runs.RunnerInfo(actor="bob", worker="press-2"))


def stored(store: Store) -> dict[str, list[dict[str, Any]]]:
    """The rows that are in the database."""
    return {table: store.log.run_tables.read(table) for table in TABLES}


def said(store: Store) -> dict[str, list[dict[str, Any]]]:
    """The rows that a replay of every run gives."""
    found = tables.rows(table_filling.sealed(store, run) for run in runs.run_ids(store))
    keys = {"job_attempts": lambda row: (row["job_id"], row["attempt"])}
    return {table: sorted(getattr(found, table), key=keys.get(table, lambda row: row["id"])) for table in TABLES}


def test_every_table_is_what_a_replay_says(filled: Store) -> None:
    """EVT-10: runs, sessions, jobs, attempts and workers stand in the tables as soon as a run has ended."""
    assert stored(filled) == said(filled)
    assert [len(rows) for rows in said(filled).values()] == [3, 4, 2, 14, 11]


def test_filling_them_again_changes_nothing(filled: Store) -> None:
    """EVT-10: the tables are a function of the events."""
    before = stored(filled)
    runs.fill_tables(filled)
    assert stored(filled) == before
    runs.fill_tables(filled, run="bad")
    assert stored(filled) == before


def test_the_rows_mean_what_they_say(filled: Store) -> None:
    """EVT-10: tenant, status, actor, worker, error and the hash of the attestation are in their columns."""
    found = stored(filled)
    assert {row["id"]: (row["tenant_id"], row["status"]) for row in found["runs"]} == dict.fromkeys(
        ("bad", "fork", "good"), ("acme", "finished")
    )
    attempts = [row for row in found["job_attempts"] if row["job_id"] == "bad/b"]
    assert [(row["attempt"], row["node_id"], row["status"]) for row in attempts] == [
        (1, "press-1", "failed"),
        (2, "press-2", "finished"),
    ]
    assert attempts[0]["error"] == "ValueError: not yet"
    assert {row["actor_id"]: row["status"] for row in found["sessions"] if row["run_id"] == "bad"} == {
        "ada": "failed",
        "bob": "finished",
    }
    first = next(row for row in found["nodes"] if row["id"] == "press-1")
    assert (first["attestation"], first["attestation_type"], first["status"]) == (EVIDENCE, "tpm2", "idle")
    good = [row["attestation_hash"] for row in found["job_attempts"] if row["job_id"] == "good/split"]
    assert good == [hashlib.sha256(EVIDENCE).digest()]


def test_a_run_that_was_killed_shows_as_running(make_bench: Any) -> None:
    """EVT-10: a session without an end is open, its worker busy, until the next session says that it was lost."""
    bench = make_bench("killed", "sqlite")
    with bench.open() as store:

        def dies(work: Any) -> None:
            raise KeyboardInterrupt

        flow = Workflow("dies")
        flow.add("a", dies)
        with pytest.raises(KeyboardInterrupt):
            runs.start(store, flow, run="r", workspace=bench.workspace)
        whole = store.read_stream("run/r")
        cut = next(event.seq for event in whole if event.type == "NODE_STARTED")
        found = tables.rows([(runs.load(store, "r", until=cut).state, None)])
        assert [row["status"] for row in found.sessions + found.nodes + found.jobs] == ["open", "busy", "running"]
        found = tables.rows([(runs.load(store, "r").state, None)])
        assert [row["status"] for row in found.sessions + found.nodes + found.jobs] == ["interrupted", "idle", "queued"]


def test_an_engine_without_tables_says_so() -> None:
    """EVT-10: the rows can be had from any engine, but not put there."""
    with tallystick.open("memory:") as store, pytest.raises(errors.UnsupportedCapability):
        runs.fill_tables(store)
