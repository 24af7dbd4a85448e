"""Jobs that need no order over all streams work over a log of runs (`ndjson:`); the others are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, errors
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.growth import growth
from tallystick.pipeline.jobs.query import sql
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import whole_log
from tallystick.testing.tamper import CHANGES, tamper

RUNS, EVENTS = 6, 5


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """Some runs, whose events are interleaved."""
    url = f"ndjson:{tmp_path}/runs"
    with tallystick.open(url) as store:
        for _ in range(EVENTS):
            for run in range(RUNS):
                store.append(f"run/r{run}", NewEvent("thing.happened", {"n": 2}, meta={"app": "web"}))
    return url


def test_a_healthy_log_of_runs_raises_no_alarm(spark: SparkSession, runs: str) -> None:
    """PIPE-03: every event of every run is checked."""
    found = verify(spark, runs)
    assert found.problems == []
    assert (found.events, found.streams, found.erased) == (RUNS * EVENTS, RUNS, 0)


@pytest.mark.security
@pytest.mark.parametrize("changed", ["payload", "meta", "type", "time", "link", "payload and checksum"])
def test_a_changed_event_of_a_run_is_named(spark: SparkSession, runs: str, changed: str) -> None:
    """SAFE-01, PIPE-03: a change of a file of one run among many is found."""
    tamper(runs, "run/r3", 3, CHANGES[changed])
    found = verify(spark, runs)
    assert any(problem.stream == "run/r3" or "run/r3" in problem.reason for problem in found.problems), found.problems
    assert not any(problem.stream in ("run/r1", "run/r5") for problem in found.problems)


def test_runs_are_counted_and_asked(spark: SparkSession, runs: str) -> None:
    """PIPE-08, PIPE-10: growth and SQL read by stream, and need no order between streams."""
    assert growth(spark, runs).events == RUNS * EVENTS
    (row,) = sql(spark, runs, "select count(*), sum(data.n), count(distinct stream) from events").collect()
    assert tuple(row) == (RUNS * EVENTS, 2 * RUNS * EVENTS, RUNS)


def test_what_needs_an_order_is_refused_by_name(spark: SparkSession, runs: str, tmp_path: Path) -> None:
    """PIPE-02: an archive and a rebuild need an order over all events, and are refused."""
    with pytest.raises(errors.NotForSpark):
        archive(spark, runs, tmp_path / "archive")
    with pytest.raises(errors.NotForSpark):
        whole_log(runs)
    with pytest.raises(errors.NotForSpark):
        verify(spark, runs, tmp_path / "archive")


def test_the_names_of_fields_are_no_types(spark: SparkSession, files_url: str) -> None:
    """PIPE-10: a field may have the name of a type."""
    odd = {"OBJECT<x": 1, "a: VOID": 2, "ARRAY<VOID": 3, "`VOID`": 4, "OBJECT": {"VOID": 5}, "none": None}
    with tallystick.open(files_url) as store:
        store.append("order/a", NewEvent("order.noted", odd))
    query = "select data.`OBJECT<x`, data.`a: VOID`, data.`ARRAY<VOID`, data.OBJECT.VOID, data.none from events"
    assert [tuple(row) for row in sql(spark, files_url, query).collect()] == [(1, 2, 3, 5, None)]
