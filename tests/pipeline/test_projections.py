"""Projections on Spark: the same rows and fingerprints as in one process, in bulk and as a stream."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import Catalog, NewEvent, errors, state
from tallystick.pipeline import clear
from tallystick.pipeline.fold.keys import is_plain
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.stream import apply_batch, stream
from tallystick.projections import Live, Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process

MakeLog = Callable[..., None]
DEATHS = 3


class Balance(Projection):
    """The payments of every customer, and the number of notes."""

    types = ("order.placed", "order.paid")
    key = "payload.customer_id"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"cents": 0, "orders": [], "ratio": 0.5}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """The next state; it depends on the order of events."""
        return {
            "cents": found["cents"] * 2 % 1_000_003 + event.data["cents"],
            "orders": [*found["orders"][-3:], event.stream],
            "ratio": found["ratio"] / 3,
        }


class History(Projection):
    """The events of every stream, erased ones too."""

    types = ("order.placed", "order.paid", "order.noted")
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"seen": 0, "erased": 0, "last": ""}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more."""
        gone = event.data is None
        return {"seen": found["seen"] + 1, "erased": found["erased"] + gone, "last": event.id.hex()}


def fingerprint(url: str, name: str) -> tuple[int, int, str]:
    """Position, rows and digest of the live rows."""
    with tallystick.open(url, readonly=True) as store:
        found = ViewReader(store, name).fingerprint()
        return found.position, found.rows, found.digest


@pytest.mark.parametrize("projection", [Balance(), History()], ids=["by payload", "by stream"])
def test_runners_agree(
    spark: SparkSession, url: str, make_log: MakeLog, tmp_path: Path, projection: Projection
) -> None:
    """PIPE-04, PIPE-07: live, rebuilt in process, rebuilt on Spark from archive and tail, and streamed: equal rows."""
    make_log(url, events=80)
    archive(spark, url, tmp_path / "archive", until=50)
    with tallystick.open(url) as store:
        state.erase(store, "order/o1", 2, reason="asked")
        Live(store, projection).catch_up()
    expected = fingerprint(url, projection.name)
    with tallystick.open(url) as store:
        rebuild_in_process(store, projection)
        assert fingerprint(url, projection.name)[1:] == expected[1:]
        rebuild(spark, store, projection, tmp_path / "archive")
    assert fingerprint(url, projection.name) == expected
    with tallystick.open(url) as store:
        store.log.views.discard(projection.name, store.log.views.places()[0].epoch, limit=10_000, live=True)
    query = stream(spark, url, projection, str(tmp_path / "checkpoint"), batch_events=30)
    query.awaitTermination()
    assert fingerprint(url, projection.name)[1:] == expected[1:]


def test_a_repeated_batch_has_no_second_effect(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-07: a query that dies after its effect but before its checkpoint repeats the batch, not the effect."""
    make_log(files_url, events=40)
    died: list[int] = []
    is_dying = True

    def dying(batch: Any, *arguments: Any) -> None:
        apply_batch(batch, *arguments)
        if is_dying:
            died.append(1)
            raise RuntimeError("killed")

    monkeypatch.setattr("tallystick.pipeline.jobs.stream.apply_batch", dying)
    for _ in range(DEATHS):
        with pytest.raises(errors.JobFailed), clear():
            stream(spark, files_url, History(), str(tmp_path / "c"), batch_events=10).awaitTermination()
    assert died
    is_dying = False
    stream(spark, files_url, History(), str(tmp_path / "c"), batch_events=10).awaitTermination()
    streamed = fingerprint(files_url, "History")
    with tallystick.open(files_url) as store:
        rebuild_in_process(store, History())
    assert fingerprint(files_url, "History")[1:] == streamed[1:]


class Resident(Projection):
    """The peak memory of the worker while it folds a stream, in MiB."""

    types = ("order.noted",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing seen."""
        return {"events": 0, "mib": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """Look now and then."""
        seen = found["events"] + 1
        if seen % 1000:
            return {"events": seen, "mib": found["mib"]}
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {"events": seen, "mib": max(found["mib"], pages * os.sysconf("SC_PAGE_SIZE") >> 20)}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory of a process")
def test_a_worker_needs_no_more_memory_for_a_longer_stream(spark: SparkSession, files_url: str) -> None:
    """PIPE-04: with twenty times the events in one stream, the worker grows by a small part of their size."""
    most = []
    with tallystick.open(files_url) as store:
        for events in (20_000, 400_000):
            while store.head() < events:
                many = [NewEvent("order.noted", {"cents": 1, "note": "x" * 300})] * 5000
                store.append("order/long", [NewEvent(item.type, item.payload) for item in many])
            rebuild(spark, store, Resident())
            found = ViewReader(store, "Resident").get("order/long")
            most.append(found["mib"])
    assert most[1] - most[0] < 48  # they are 180 MiB


def test_a_log_without_events_is_rebuilt(spark: SparkSession, files_url: str) -> None:
    """PIPE-04: an empty log gives no rows, and the live runner continues from there."""
    with tallystick.open(files_url) as store:
        rebuild(spark, store, Balance())
        assert ViewReader(store, "Balance").fingerprint().rows == 0
        store.append("order/o1", NewEvent("order.paid", {"customer_id": "c", "cents": 1}))
        Live(store, Balance()).catch_up()
        assert ViewReader(store, "Balance").fingerprint().rows == 1


def test_upcasters_are_passed_on_spark_too(spark: SparkSession, files_url: str) -> None:
    """PIPE-04: key and data are those after upcasting; then Python computes the key."""
    catalog = Catalog()

    @catalog.upcaster("order.paid", from_version=1)
    def named(data: dict[str, Any]) -> dict[str, Any]:
        return {"customer_id": "c" + data.pop("customer"), **data}

    with tallystick.open(files_url) as store:
        for number in range(12):
            payload = {"customer": str(number % 3), "cents": number}
            store.append(f"order/o{number % 2}", NewEvent("order.paid", payload, version=1))
    with tallystick.open(files_url, catalog=catalog) as store:
        assert not is_plain(Balance(), catalog)
        assert is_plain(Balance(), Catalog())
        Live(store, Balance()).catch_up()
        expected = ViewReader(store, "Balance").fingerprint()
        rebuild(spark, store, Balance())
        assert ViewReader(store, "Balance").fingerprint() == expected
        assert expected.rows == 3


@pytest.mark.parametrize("value", [5, None, ["c1"], "x" * 501, ""])
def test_a_key_that_is_no_text_is_named(spark: SparkSession, files_url: str, value: Any) -> None:
    """PIPE-04: a number that the JVM would take for a text is refused as in the process, with the event's name."""
    with tallystick.open(files_url) as store:
        store.append("order/o1", NewEvent("order.paid", {"customer_id": "5", "cents": 1}))
        store.append("order/o1", NewEvent("order.paid", {"customer_id": value, "cents": 1}))
        with pytest.raises(errors.ProjectionKeyInvalid) as caught:
            rebuild(spark, store, Balance())
        assert (caught.value.stream, caught.value.seq) == ("order/o1", 2)
        assert store.log.views.places() == []


def test_what_a_projection_raises_is_named(spark: SparkSession, files_url: str) -> None:
    """PIPE-04: an exception of the projection names the event at which it was raised."""
    with tallystick.open(files_url) as store:
        store.append("order/o1", NewEvent("order.paid", {"customer_id": "c", "cents": "many"}))
        with pytest.raises(errors.ProjectionFailed, match="seq 1"):
            rebuild(spark, store, Balance())
