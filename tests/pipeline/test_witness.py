"""Events that were pruned by an archive stay in it as they were: every job refuses a change, verify reports it.

Each attack changes the archive as its owner could: files, manifest and hashes together.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.pipeline import clear
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.archive.manifest import Bucket, Manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.growth import growth
from tallystick.pipeline.jobs.query import sql
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import whole_log
from tallystick.projections import Projection, ViewReader
from tallystick.state import as_reducer, prune

MakeLog = Callable[..., None]
Change = Callable[[Manifest], Manifest]


class Noted(Projection):
    """The number of events of every stream."""

    types = ("order.placed", "order.paid", "order.noted")
    key = "stream"

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One more."""
        return {"events": found["events"] + 1}


class Counted:
    """Counts events."""

    name, version = "witness.count", 1

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One more."""
        return {"events": found["events"] + 1}


def fill(store: Store, events: int) -> None:
    """Append orders to five streams."""
    for number in range(events):
        store.append(f"order/o{number % 5}", NewEvent("order.noted", {"cents": number, "head": store.head()}))


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that was pruned by its archive; then the log and the archive have grown."""
    place = tmp_path_factory.mktemp("pruned")
    url, counter = f"files:{place}/log", as_reducer(Counted)
    with tallystick.open(url) as store:
        fill(store, 40)
        archive(spark, url, place / "archive", bucket_events=20)
        for number in range(5):
            head = store.stream_head(f"order/o{number}")
            assert head is not None
            held = ArchiveCoverage(place / "archive", store)
            prune(store, f"order/o{number}", before=head.seq, reducers=[counter], snapshot=True, archive=held)
        fill(store, 5)
    archive(spark, url, place / "archive", bucket_events=20)
    return place


@pytest.fixture
def pruned(template: Path, tmp_path: Path) -> Path:
    """The archive of a copy of them; the log is next to it."""
    for name in ("log", "archive"):
        shutil.copytree(template / name, tmp_path / name)
    return tmp_path / "archive"


def changed(place: Path, change: Change) -> None:
    """Replace the manifest, with the right checksum."""
    manifest.save(place, change(manifest.read(place)))


def without(first: int) -> Callable[[list[Bucket]], list[Bucket]]:
    """All buckets but one."""
    return lambda buckets: [bucket for bucket in buckets if bucket.first != first]


def empty(bucket: Bucket) -> Bucket:
    """The bucket as if its range had no events."""
    return Bucket(first=bucket.first, last=bucket.last, rows=0, events=None, heads=None, blocks=[])


def buckets_as(change: Callable[[list[Bucket]], list[Bucket]]) -> Change:
    """A manifest with other buckets, and `through` at the end of the last one."""

    def run(found: Manifest) -> Manifest:
        buckets = change(found.buckets)
        through = buckets[-1].last if buckets else 0
        return msgspec.structs.replace(found, buckets=buckets, through=through, link_position=0, link="")

    return run


FORGED: dict[str, Change] = {
    "a bucket left out": buckets_as(without(1)),
    "another left out": buckets_as(without(21)),
    "all left out": buckets_as(lambda buckets: []),
    "the newest left out": buckets_as(lambda buckets: buckets[:1]),
    "a bucket declared empty": buckets_as(lambda buckets: [empty(buckets[0]), *buckets[1:]]),
    "all declared empty": buckets_as(lambda buckets: [*map(empty, buckets)]),
    "one bucket twice": buckets_as(lambda buckets: [buckets[0], *buckets]),
    "one over another": buckets_as(
        lambda buckets: [msgspec.structs.replace(buckets[0], last=buckets[1].last), *buckets[2:]]
    ),
}


@pytest.mark.security
@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_manifest_that_leaves_out_what_was_pruned_is_refused(
    spark: SparkSession, files_url: str, pruned: Path, change: Change
) -> None:
    """SAFE-05, PIPE-04: a rebuild, a report, an archive run and a prune all refuse it, and the rows stay."""
    changed(pruned, change)
    with tallystick.open(files_url) as store:
        jobs: list[Callable[[], object]] = [
            lambda: rebuild(spark, store, Noted(), pruned),
            lambda: growth(spark, files_url, pruned),
            lambda: archive(spark, files_url, pruned),
            lambda: ArchiveCoverage(pruned, store),
        ]
        for job in jobs:
            with pytest.raises(errors.ArchiveDamaged):
                job()
        assert store.log.views.places() == []


@pytest.mark.security
@pytest.mark.parametrize(
    "name",
    [
        "a bucket left out",
        "the newest left out",
        pytest.param("all left out", marks=pytest.mark.slow),
        pytest.param("a bucket declared empty", marks=pytest.mark.slow),
        pytest.param("one over another", marks=pytest.mark.slow),
    ],
)
def test_verify_names_what_was_pruned_and_is_not_in_the_archive(
    spark: SparkSession, files_url: str, pruned: Path, name: str
) -> None:
    """SAFE-05, PIPE-03: verify reports the manifest, and the streams whose beginning is missing in both."""
    assert verify(spark, files_url, pruned).problems == []
    changed(pruned, FORGED[name])
    found = verify(spark, files_url, pruned)
    assert any("not the archive that the log was pruned by" in problem.reason for problem in found.problems)
    assert {problem.stream for problem in found.problems if problem.what == "sequence"} & {
        f"order/o{number}" for number in range(5)
    }


def test_a_merge_and_another_run_leave_what_is_on_record(
    spark: SparkSession, files_url: str, pruned: Path, make_log: MakeLog
) -> None:
    """PIPE-06: merged and grown, the archive still has the blocks of the witness, and every event."""
    with tallystick.open(files_url) as store:
        rebuild(spark, store, Noted(), pruned)
        before = ViewReader(store, "Noted").fingerprint()
    assert compact(spark, pruned, bucket_events=100).buckets_after == 1
    with tallystick.open(files_url) as store:
        rebuild(spark, store, Noted(), pruned)
        assert ViewReader(store, "Noted").fingerprint() == before
    make_log(files_url, events=5, seed=3)
    archive(spark, files_url, pruned)
    assert verify(spark, files_url, pruned).problems == []


# --- files -----------------------------------------------------------------------------------------------------------


def altered(place: Path, change: Callable[[pa.Table], pa.Table], *, forged: bool) -> None:
    """Change the first file; `forged`: the manifest has its new hash."""
    found = manifest.read(place)
    bucket = found.buckets[0]
    assert bucket.events is not None
    path = place / bucket.events.name
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    if forged:
        rows = archive_files.rows_in(path)
        file = msgspec.structs.replace(bucket.events, sha256=archive_files.hash_of(path), rows=rows)
        first = msgspec.structs.replace(bucket, events=file, rows=rows)
        manifest.save(place, msgspec.structs.replace(found, buckets=[first, *found.buckets[1:]]))


def without_a_stream(table: pa.Table) -> pa.Table:
    """The rows of the others."""
    return table.filter(pa.array([stream != "order/o1" for stream in table["stream"].to_pylist()]))


def another_payload(table: pa.Table) -> pa.Table:
    """Change texts that are not null."""
    payloads = [text and text.replace("cents", "CENTS") for text in table["payload"].to_pylist()]
    return table.set_column(table.column_names.index("payload"), "payload", [payloads])


def reversed_rows(table: pa.Table) -> pa.Table:
    """The last row first."""
    return table.take(list(range(table.num_rows))[::-1])


def exchanged(table: pa.Table) -> pa.Table:
    """Exchange the positions of two events of different streams."""
    rows = table.to_pylist()
    other = next(row for row in rows if row["stream"] != rows[0]["stream"])
    rows[0]["position"], other["position"] = other["position"], rows[0]["position"]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: int(row["position"])), schema=table.schema)


ALTERED = {
    "a stream dropped": without_a_stream,
    "payloads changed": another_payload,
    "rows reversed": reversed_rows,
    "positions exchanged": exchanged,
}


@pytest.mark.security
@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_no_job_takes_a_changed_file(
    spark: SparkSession, files_url: str, pruned: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    """SAFE-01, PIPE-06: SQL, a merge and a table of the archive check the hash, whatever Spark's settings ignore."""
    altered(pruned, change, forged=False)
    before = manifest.read(pruned)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(errors.ArchiveDamaged, match="is not the one that was archived"):
            compact(spark, pruned, bucket_events=100)
        with pytest.raises(errors.ArchiveDamaged, match="is not the one that was archived"), clear():
            whole_log(files_url, pruned).table(spark).collect()
        with pytest.raises(errors.ArchiveDamaged, match="is not the one that was archived"), clear():
            sql(spark, files_url, "select count(*) from events where position between 5 and 8", pruned).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert manifest.read(pruned) == before


@pytest.mark.security
@pytest.mark.parametrize("name", ["a stream dropped", "rows reversed", "positions exchanged"])
def test_a_merge_does_not_launder_a_file_whose_hash_was_forged_along(
    spark: SparkSession, files_url: str, pruned: Path, name: str
) -> None:
    """SAFE-01, PIPE-06: the blocks show it: the merge is refused, and verify reports the block."""
    altered(pruned, ALTERED[name], forged=True)
    with pytest.raises(errors.ArchiveDamaged):
        compact(spark, pruned, bucket_events=100)
    found = verify(spark, files_url, pruned)
    assert "block" in {problem.what for problem in found.problems}
    if name == "rows reversed":
        assert any("do not ascend" in problem.reason for problem in found.problems)


@pytest.mark.security
def test_every_file_that_cannot_be_read_is_named_beside_the_rest(
    spark: SparkSession, files_url: str, pruned: Path
) -> None:
    """SAFE-03, PIPE-03: a missing or unreadable file does not end the verification, nor hide a changed event."""
    files = [bucket.events.name for bucket in manifest.read(pruned).buckets if bucket.events is not None]
    (pruned / files[0]).unlink()
    (pruned / files[1]).write_bytes(b"PAR1 and nothing")
    found = verify(spark, files_url, pruned)
    reasons = [problem.reason for problem in found.problems]
    assert any("is missing" in reason for reason in reasons)
    assert any("cannot be read" in reason for reason in reasons)
    assert any(problem.stream for problem in found.problems)


@pytest.mark.security
def test_the_live_log_is_held_against_its_archive(spark: SparkSession, make_log: MakeLog, tmp_path: Path) -> None:
    """SAFE-03, PIPE-03: a payload changed in the database is reported, although the archive has the right one."""
    url, place = f"sqlite:{tmp_path}/log.db", tmp_path / "archive"
    make_log(url, events=20)
    archive(spark, url, place)
    with tallystick.open(url, readonly=True) as store:
        event = store.read(after=6, limit=1).events[0]
    data = (tmp_path / "log.db").read_bytes()
    assert event.payload is not None
    assert data.count(event.payload) == 1
    (tmp_path / "log.db").write_bytes(data.replace(event.payload, event.payload.replace(b"cents", b"CENTS")))
    found = verify(spark, url, place)
    assert not found.ok
    assert any(problem.position == event.position or "live log" in problem.reason for problem in found.problems)
