"""`replay-check` and `diff`: every sealed run folds to its fingerprint, and differences of versions are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tallystick
from tallystick import state
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.diff import diff
from tallystick.pipeline.jobs.replay_check import replay_check
from tallystick.projections import Projection
from tallystick.state import as_reducer

MakeLog = Callable[..., None]


class Sum:
    """Adds up amounts."""

    name, version = "pipeline.added", 1

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"cents": 0, "events": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One event more."""
        cents = 0 if event.data is None else event.data["cents"]
        return {"cents": found["cents"] + cents, "events": found["events"] + 1}


class WrongSum(Sum):
    """The same, but for large amounts."""

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One event more."""
        right = super().apply(found, event)
        return right if event.data is None or event.data["cents"] < 5000 else right | {"cents": right["cents"] + 1}


class Placed(Projection):
    """Orders by customer."""

    types = ("order.placed",)
    key = "payload.customer_id"

    def initial(self) -> dict[str, Any]:
        """None."""
        return {"orders": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One more."""
        return {"orders": found["orders"] + 1}


class PlacedAndPaid(Placed):
    """Counts payments too."""

    types = ("order.placed", "order.paid")


def test_every_sealed_run_is_replayed(spark: SparkSession, url: str, make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-05, EVT-04: full fold, snapshot + tail and fingerprint agree, also after pruning; with other code not."""
    make_log(url, events=60)
    reducer = as_reducer(Sum)
    with tallystick.open(url) as store:
        for number in range(5):
            state.make(store, reducer, f"order/o{number}", until=state.Until(seq=4))
        for number in range(4):
            state.seal(store, reducer, f"order/o{number}")
        archive(spark, url, tmp_path / "archive")
        state.prune(store, "order/o0", before=5, reducers=[reducer], accept=True)
        state.erase(store, "order/o3", 2, reason="asked", reducers=[])
    found = replay_check(spark, url, [reducer])
    assert (found.same, found.different, found.not_comparable) == (3, 0, 1)
    assert found.others[0]["stream"] == "order/o3"
    with_archive = replay_check(spark, url, [reducer], tmp_path / "archive")
    assert (with_archive.same, with_archive.different) == (3, 0)
    wrong = replay_check(spark, url, [as_reducer(WrongSum)], tmp_path / "archive")
    assert wrong.different >= 1
    assert all("full fold" in row["reason"] for row in wrong.differences)


def test_two_versions_of_a_reducer_are_told_apart(spark: SparkSession, files_url: str, make_log: MakeLog) -> None:
    """`diff` reports the keys that differ, by how much, and the first event after which they differ."""
    make_log(files_url, events=50)
    with tallystick.open(files_url) as store:
        large: dict[str, list[int]] = {}
        for event in store.read(limit=1000).events:
            if event.data["cents"] >= 5000:
                large.setdefault(event.stream, []).append(event.seq)
    assert diff(spark, files_url, as_reducer(Sum), as_reducer(Sum)).same
    found = diff(spark, files_url, as_reducer(Sum), as_reducer(WrongSum))
    assert {item.key: (item.seq, item.changes[0].by) for item in found.differences} == {
        stream: (seqs[0], len(seqs)) for stream, seqs in large.items()
    }
    assert found.differing == len(large)


def test_two_versions_of_a_projection_are_told_apart(spark: SparkSession, files_url: str, make_log: MakeLog) -> None:
    """Projections that take other types can be compared too."""
    make_log(files_url, events=50)
    found = diff(spark, files_url, Placed(), PlacedAndPaid())
    assert found.differing > 0
    assert {item.type for item in found.differences} == {"order.paid"}
    assert {change.path for item in found.differences for change in item.changes} == {"/orders"}
