"""Summaries on Spark: the rows of the live runner, byte for byte, or the same refusal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.model import Event
from tallystick.pipeline.fold.payload_columns import NEEDED, PayloadExtractor
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.source import columns
from tallystick.projections import Live, Summary, ViewReader
from tallystick.projections.summary import DAY, count, latest, max_text, payload, sum_
from tallystick.testing import upkeep
from tests.projections.summaries import SOLD, ByStream, Everything, expected, histories, play, rows_of


@pytest.mark.timeout(600)
def test_spark_gives_the_rows_of_the_live_runner(spark: SparkSession) -> None:
    """PIPE-04: from an archive and the live log after it, on random histories with erasures."""

    @hypothesis.settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=6,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(histories.filter(len), histories)
    def check(history: list[tuple[str, Any, Any]], later: list[tuple[str, Any, Any]]) -> None:
        with tempfile.TemporaryDirectory() as place, tallystick.open(f"sqlite:{place}/log.db") as store:
            store.append("order/1", NewEvent(SOLD, {"customer": "first"}))
            play(store, history)
            archive(spark, store.log.url, f"{place}/archive")
            play(store, later)
            for projection in (Everything(), ByStream()):
                Live(store, projection).catch_up()
                fingerprint = ViewReader(store, projection.name).fingerprint().digest
                rebuild(spark, store, projection, f"{place}/archive")
                assert rows_of(store, projection.name) == expected(list(store.events()), projection.key)
                assert ViewReader(store, projection.name).fingerprint().digest == fingerprint
            play(store, history)
            for projection in (Everything(), ByStream()):
                Live(store, projection).catch_up()
                assert rows_of(store, projection.name) == expected(list(store.events()), projection.key)

    check()


class Sold(Summary):
    """A summary with values that are refused in several ways."""

    types = (SOLD,)
    key = payload.customer
    total = sum_(payload.cents)
    money = sum_(payload.price, places=2)
    name_ = max_text(payload.name)


class Kinds(Summary):
    """All streams of a kind in one row, and a field that contains another field."""

    types = (SOLD,)
    key = "kind"
    orders = count()
    to = latest(payload.to)
    city = latest(payload.to.city)
    days = sum_(payload.cents, per=DAY)


@pytest.mark.parametrize(
    "body",
    [
        {"cents": 1.0},
        {"cents": "1"},
        {"cents": True},
        {"price": 0.001},
        {"price": 10**13},
        {"price": (1 << 63) - 1},
        {"price": 1e300},
        {"price": "1"},
        {"name": 5},
        {"customer": 5},
        {"customer": ""},
        {"customer": "x" * 501},
        {"customer": None},
    ],
)
def test_a_refusal_is_the_same(body: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    """The refusal names the event, the measure and the reason, as in the live runner."""
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        store.append("order/1", NewEvent(SOLD, {"customer": "a", "cents": 1}))
        store.append("order/1", NewEvent(SOLD, {"customer": "b", **body}))
        with pytest.raises(errors.ProjectionRefused) as live:
            Live(store, Sold()).catch_up()
        with pytest.raises(errors.ProjectionRefused) as on_spark:
            rebuild(spark, store, Sold())
        assert str(on_spark.value) == str(live.value)


def test_all_streams_of_a_kind_in_one_row(spark: SparkSession, tmp_path: Path) -> None:
    """The key is computed; an object is a value too."""
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        store.append("order/1", NewEvent(SOLD, {"to": {"city": "Ä"}, "cents": 1}, time=0))
        store.append("order/2", NewEvent(SOLD, {"to": [1.0], "cents": 2}, time=86_400_000_000_000))
        upkeep.erase(store, "order/1", 1)
        rebuild(spark, store, Kinds())
        rows = rows_of(store, "Kinds")
        Live(store, Kinds()).catch_up()
        assert rows == rows_of(store, "Kinds")
        assert ViewReader(store, "Kinds").get("order") == {
            "orders": 2,
            "to": [1.0],
            "city": None,
            "days": {"1970-01-02": 2},
        }


def test_no_python_is_run_for_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads of the expected form become no events, and Python does not fold them."""

    def never(*_: Any) -> Any:
        raise AssertionError("an event was looked at by Python")

    monkeypatch.setattr("tallystick.pipeline.fold.payload_columns._event", never)
    with tallystick.open("memory:") as store:
        body = {"customer": "a", "cents": 1, "price": 1.25, "to": {"city": "x"}, "note": "n"}
        store.append("order/1", [NewEvent(SOLD, body), NewEvent(SOLD, {"customer": "b", "note": None})])
        events: list[Event] = list(store.events())
    table = pa.Table.from_batches([columns.batch_maker(NEEDED)(events)])
    assert PayloadExtractor(Everything()).batch(table).num_rows == 2
