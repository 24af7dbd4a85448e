"""Upcasters, erased payloads and pruned ranges: rebuild, diff and replay-check see what the in-process runner sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import Catalog, NewEvent, errors, state
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.diff import diff
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.replay_check import replay_check
from tallystick.projections import Live, Projection, ViewReader
from tallystick.state import as_reducer


class Paid(Projection):
    """The payments of every customer, under the field name that the upcaster gives."""

    types = ("order.paid",)
    key = "payload.customer_id"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"cents": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One payment more."""
        return {"cents": found["cents"] * 3 % 10_007 + event.data["cents"]}


class PaidFrom(Paid):
    """The same, but only payments of one stream count."""

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One payment more."""
        return super().apply(found, event) if event.seq < 5 else found


class Sum:
    """Adds up amounts; counts what was erased."""

    name, version = "honouring.sum", 1

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"cents": 0, "erased": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """The next state; an outdated event would have no customer."""
        if event.data is None:
            return found | {"erased": found["erased"] + 1}
        return found | {"cents": found["cents"] + event.data["cents"] + len(event.data["customer_id"])}


class Last(Sum):
    """Another reducer, with other fingerprints."""

    name = "honouring.last"

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """Only the last one counts."""
        return {"cents": -1 if event.data is None else event.data["cents"], "erased": 0}


@pytest.fixture
def catalog() -> Catalog:
    """A catalog with an upcaster for outdated payments."""
    known = Catalog()

    @known.upcaster("order.paid", from_version=1)
    def named(data: dict[str, Any]) -> dict[str, Any]:
        return {"customer_id": "c" + data.pop("customer"), **data}

    return known


@pytest.fixture
def archived(spark: SparkSession, files_url: str, catalog: Catalog, tmp_path: Path) -> Path:
    """The archive of a log with outdated events, one erased before and one after the archive run, then pruned."""
    place = tmp_path / "archive"
    with tallystick.open(files_url) as store:  # before there was a catalog
        for number in range(24):
            old = NewEvent("order.paid", {"customer": str(number % 3), "cents": number}, version=1)
            new = NewEvent("order.paid", {"customer_id": f"c{number % 3}", "cents": number}, version=2)
            store.append(f"order/o{number % 4}", old if number < 16 else new)
    with tallystick.open(files_url, catalog=catalog) as store:
        state.erase(store, "order/o3", 1, reason="asked")
        for number, kind in enumerate((Sum, Sum, Last, Sum)):
            state.seal(store, as_reducer(kind), f"order/o{number}")
        archive(spark, files_url, place)
        state.erase(store, "order/o2", 2, reason="asked")
        Live(store, Paid()).catch_up()
        reducers, held = [as_reducer(Sum)], ArchiveCoverage(place, store)
        state.prune(store, "order/o0", before=4, reducers=reducers, snapshot=True, archive=held)
    return place


def test_a_rebuild_takes_what_was_pruned_from_the_archive(
    spark: SparkSession, files_url: str, archived: Path, catalog: Catalog
) -> None:
    """PIPE-04: with upcast, erased and pruned events the rows are the same; without the archive it is refused."""
    with tallystick.open(files_url, catalog=catalog) as store:
        expected = ViewReader(store, "Paid").fingerprint().digest
        with pytest.raises(errors.HistoryPruned):
            rebuild(spark, store, Paid())
        rebuild(spark, store, Paid(), archived)
        assert ViewReader(store, "Paid").fingerprint().digest == expected


def test_a_diff_goes_over_the_whole_history(
    spark: SparkSession, files_url: str, archived: Path, catalog: Catalog
) -> None:
    """Both versions see upcast events, pruned ones too; without the archive it is refused."""
    with pytest.raises(errors.HistoryPruned):
        diff(spark, files_url, Paid(), Paid(), catalog=catalog)
    found = diff(spark, files_url, Paid(), PaidFrom(), archived, catalog=catalog)
    assert (found.keys, found.differing) == (3, 3)
    assert {item.seq for item in found.differences} == {5}
    reducers = diff(spark, files_url, as_reducer(Sum), as_reducer(Last), archived, catalog=catalog)
    assert {item.key: item.seq for item in reducers.differences} == {f"order/o{number}": 1 for number in range(4)}


def test_fingerprints_are_compared_by_the_reducer_they_name(
    spark: SparkSession, files_url: str, archived: Path, catalog: Catalog
) -> None:
    """PIPE-05, EVT-04: each with its own reducer and upcasters, over pruned events; not over events erased since."""
    both = [as_reducer(Sum), as_reducer(Last)]
    found = replay_check(spark, files_url, both, archived, catalog=catalog)
    assert (found.same, found.different) == (3, 0)
    assert [(row["stream"], row["reason"]) for row in found.others] == [
        ("order/o2", "an event that it covers was erased since")
    ]
    one = replay_check(spark, files_url, both[:1], archived)
    assert (one.same, one.different, one.not_comparable) == (0, 0, 4)
