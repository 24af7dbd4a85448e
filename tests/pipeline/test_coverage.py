"""Retention with an archive: events that its files prove to hold may be pruned without accepting a loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.bucket_writer import stage_range
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.storage.directory import DirectoryStorage
from tallystick.pipeline.whole_log import whole_log
from tallystick.scheduler import Scheduler
from tallystick.state import Reducer, as_reducer
from tallystick.state.policy import Policy
from tallystick.state.retention import retain

MakeLog = Callable[..., None]


class Counted:
    """Counts events."""

    name, version = "covering.count", 1

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One more."""
        return {"events": found["events"] + 1}


@pytest.fixture
def counter() -> Reducer:
    """A reducer to snapshot with."""
    return as_reducer(Counted)


@pytest.fixture
def archived(spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path) -> Path:
    """The archive of a log that has grown since."""
    make_log(files_url, events=40)
    archive(spark, files_url, tmp_path / "archive", bucket_events=20)
    make_log(files_url, events=20, seed=2)
    return tmp_path / "archive"


def last_archived(store: tallystick.Store, stream: str, through: int) -> int:
    """The last seq of a stream in the archive."""
    return max(event.seq for event in store.log.read_stream(stream, limit=1000) if event.position <= through)


def test_what_the_archive_holds_needs_no_acceptance(
    spark: SparkSession,
    files_url: str,
    archived: Path,
    counter: Reducer,
    stored: Callable[[str], list[Event]],
    rows_of: Callable[[DataFrame], list[Event]],
) -> None:
    """PIPE-06, EVT-03: without `accept` a prune goes up to the archive's end, not past it, and nothing is lost."""
    complete = stored(files_url)
    with tallystick.open(files_url) as store:
        held = ArchiveCoverage(archived, store)
        last = last_archived(store, "order/o1", held.through)
        asked: dict[str, Any] = {"reducers": [counter], "snapshot": True, "archive": held}
        past = state.plan(store, "order/o1", before=last + 2, **asked)
        assert "the archive ends at position 40" in past.refusals[0]
        with pytest.raises(errors.PruneRefused, match="--accept"):
            state.prune(store, "order/o1", before=last + 1, reducers=[counter], snapshot=True)
        assert state.plan(store, "order/o1", before=last + 1, **asked).archived
        assert state.prune(store, "order/o1", before=last + 1, **asked) == last
    assert rows_of(whole_log(files_url, archived).table(spark))[: len(complete)] == complete


def test_retention_prunes_what_is_archived_and_no_more(files_url: str, archived: Path, counter: Reducer) -> None:
    """PIPE-06: a policy with an archive stops at the archive's end."""
    with tallystick.open(files_url) as store:
        held = ArchiveCoverage(archived, store)
        names = [f"order/o{number}" for number in range(5)]
        expected = {stream: last_archived(store, stream, held.through) for stream in names}
        for stream in names:
            state.make(store, counter, stream)
        deeds, _ = retain(store, [counter], Policy(prune_ns=0), archive=held)
        assert {deed.stream: deed.count for deed in deeds if deed.what == "pruned"} == expected


def test_the_scheduler_asks_the_archive_as_it_is_then(files_url: str, archived: Path, counter: Reducer) -> None:
    """PIPE-06, LH-11: events that the archive does not hold when retention is due stay, whatever the policy says."""
    with tallystick.open(files_url) as store:
        for number in range(5):
            state.make(store, counter, f"order/o{number}")
        policy = Policy(stream_events=None, prune_ns=0, retain_every_ns=0)
        asked: list[ArchiveCoverage] = []

        def current() -> ArchiveCoverage:
            asked.append(ArchiveCoverage(archived, store))
            return asked[-1]

        scheduler = Scheduler(store, [counter], policy, archive=current)
        assert asked == []
        assert "pruned order/o" in scheduler.tick()[0].result
        assert store.floor() <= asked[0].through < store.head()
        scheduler.tick()
        assert len(asked) == 2


@pytest.mark.parametrize("damage", ["another byte", "another row", "missing"])
def test_an_archive_that_is_not_what_it_says_covers_nothing(
    files_url: str, archived: Path, counter: Reducer, damage: str
) -> None:
    """PIPE-06: every file is hashed before it is trusted, and every event is looked up."""
    bucket = manifest.load(archived).buckets[0]
    assert bucket.events is not None
    path = archived / bucket.events.name
    if damage == "missing":
        path.unlink()
    elif damage == "another byte":
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    else:
        pq.write_table(pq.read_table(path).slice(1), path)
    with tallystick.open(files_url) as store:
        plan = state.plan(
            store, "order/o1", before=3, reducers=[counter], snapshot=True, archive=ArchiveCoverage(archived, store)
        )
    assert not plan.archived
    assert "is not what its manifest says" in plan.refusals[0]


def test_a_row_that_is_not_the_logs_is_noticed_under_a_manifest_made_anew(
    files_url: str, archived: Path, counter: Reducer
) -> None:
    """PIPE-06: it is not enough that files and manifest agree: the rows must be those of the log."""
    found = manifest.load(archived)
    first = found.buckets[0]
    without = first.__class__(first=1, last=first.last, rows=0, events=None, heads=None, blocks=[])
    changed = found.__class__(
        store_id=found.store_id, number=found.number, through=found.through, buckets=[without, *found.buckets[1:]]
    )
    manifest.save(archived, changed)
    with tallystick.open(files_url) as store:
        plan = state.plan(
            store, "order/o1", before=2, reducers=[counter], snapshot=True, archive=ArchiveCoverage(archived, store)
        )
    assert "the archive does not hold seq 1" in plan.refusals[0]


def test_another_payload_covers_nothing(files_url: str, make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-06: the right link is not enough: the payload must have its checksum too."""
    make_log(files_url, events=5)
    run = manifest.new_run()
    staged = stage_range(LogQuery(url=files_url, until=5), Range(0, 5), DirectoryStorage(tmp_path), run)
    assert staged.events is not None
    table = pq.read_table(tmp_path / staged.events.name)
    payloads = ["{}", *table["payload"].to_pylist()[1:]]
    other = tmp_path / "other.parquet"
    pq.write_table(table.set_column(table.column_names.index("payload"), "payload", [payloads]), other)
    events = archive_files.BucketFiles(storage=DirectoryStorage(tmp_path), run=run, first=1, last=5).put(
        archive_files.EVENTS, other, rows=5
    )
    bucket = manifest.Bucket(first=1, last=5, rows=5, events=events, heads=None, blocks=staged.blocks)
    with tallystick.open(files_url) as store:
        manifest.save(tmp_path, manifest.Manifest(store_id=store.log.store_id.hex(), through=5, buckets=[bucket]))
        first, *others = store.read(limit=5).events
        held = ArchiveCoverage(tmp_path, store)
        assert held.why_not([first]) == f"the archive has another payload for seq {first.seq} at position 1"
        assert held.why_not(others) is None
