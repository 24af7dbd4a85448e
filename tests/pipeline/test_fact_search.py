"""Tasks search a long log for control facts: the driver reads nothing of it, and finds the same facts."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, Store
from tallystick.pipeline.archive import fact_search
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.archive.history import as_witness, erased_positions, witnesses
from tallystick.pipeline.archive.manifest import Witness
from tallystick.pipeline.jobs.archive import archive
from tallystick.state import as_reducer, prune
from tallystick.store import facts
from tallystick.store.page import Hole
from tallystick.testing import upkeep


class Counted:
    """Counts events."""

    name, version = "fact_search.count", 1

    def initial(self) -> int:
        """None yet."""
        return 0

    def apply(self, state: int, event: Any) -> int:
        """One more."""
        return state + 1


def test_tasks_find_what_the_driver_finds(
    url: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    """PIPE-02: erasures after the archive's end, and the witnesses of prunes, once each; over every engine."""
    with tallystick.open(url) as store:
        for number in range(3):
            store.append(f"order/{number}", [NewEvent("order.placed", {"n": at}) for at in range(10)])
        archive(spark, store.log.url, tmp_path / "archive", bucket_events=10)
        for number in range(2):
            covering = ArchiveCoverage(tmp_path / "archive", store)
            reducers = [as_reducer(Counted())]
            prune(store, f"order/{number}", before=4, reducers=reducers, snapshot=True, archive=covering)
        for number in (0, 1, 2):
            upkeep.erase(store, f"order/{number}", 9)
            store.append("order/later", NewEvent("order.placed", {"n": number}))
        head = store.head()
        known, gone = witnesses(store), erased_positions(store, after=25, until=head)
        assert len(known) == 1
        assert len(gone) == 2, "the third was recorded later than that"
        assert known == _among_all_events(store), "they are found beside the cuts"
        monkeypatch.setattr(fact_search, "SHORT_EVENTS", 5)
        monkeypatch.setattr(store.log, "read", None)
        assert witnesses(store) == known, "no event of the log was read for them"
        assert erased_positions(store, spark, after=25, until=head) == gone
        monkeypatch.setattr(store.log, "holes", lambda: [Hole(1, 1, "a hole")])
        assert witnesses(store, spark) == known, "a hole may have held a cut, so tasks look at all events"


def _among_all_events(store: Store) -> list[Witness]:
    told = [facts.parse(event, facts.Pruned) for event in store.events(over_pruned=True) if event.type == facts.PRUNED]
    return list(dict.fromkeys(as_witness(fact.archive, through=0) for fact in told if fact.archive is not None))
