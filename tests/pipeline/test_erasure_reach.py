"""An erased payload is in no file of the archive, whatever was killed, merged or registered before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.manifest import Manifest
from tallystick.pipeline.archive.registration import ICEBERG, NAMESPACE, TABLE, iceberg_catalog, register
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.verify import verify

MakeLog = Callable[..., None]
SECRET = "sixteen letters and more"


class Killed(BaseException):
    """The process was killed."""


def holders(place: Path) -> list[str]:
    """The Parquet files that hold the secret."""
    found = []
    for path in sorted(place.rglob("*.parquet")):
        names = pq.read_schema(path).names
        payloads = pq.read_table(path, columns=["payload"])["payload"].to_pylist() if "payload" in names else []
        found += [path.name] if any(SECRET in (payload or "") for payload in payloads) else []
    return found


@pytest.fixture
def log(files_url: str, make_log: MakeLog) -> str:
    """A log with a secret in it."""
    make_log(files_url, events=10)
    with tallystick.open(files_url) as store:
        store.append("order/secret", NewEvent("order.noted", {"text": SECRET}))
    make_log(files_url, events=10, seed=2)
    return files_url


def erase(url: str) -> None:
    """Erase the secret from the log."""
    with tallystick.open(url) as store:
        state.erase(store, "order/secret", 1, reason="asked")


@pytest.mark.security
def test_what_a_killed_run_left_goes_with_the_next_run(
    spark: SparkSession, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: a run also removes files that a killed run stored or staged; until then verify reports them."""
    place = tmp_path / "archive"
    archive(spark, log, place, until=5)
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "save", _kill)
        with pytest.raises(Killed):
            archive(spark, log, place)
    staged = place / archive_files.STAGING / "again-1"
    staged.mkdir(parents=True)
    (left,) = [path for path in (place / "data").iterdir() if path.name in holders(place)]
    (staged / "part-events.parquet").write_bytes(left.read_bytes())
    (place / archive_files.STAGING / "mine.txt").write_text("somebody else's")
    erase(log)
    assert len(holders(place)) == 2
    assert any("not in its manifest" in text for text in verify(spark, log, place).unsure)
    archive(spark, log, place)
    assert holders(place) == []
    assert (place / archive_files.STAGING / "mine.txt").exists()
    assert not any("not in its manifest" in text for text in verify(spark, log, place).unsure)


def _kill(*_: object) -> Manifest:
    raise Killed


@pytest.mark.security
def test_verify_says_what_no_run_has_taken_out_yet(spark: SparkSession, log: str, tmp_path: Path) -> None:
    """PIPE-03: until the next run the archive has payloads that were erased since, and verify reports them."""
    place = tmp_path / "archive"
    archive(spark, log, place)
    erase(log)
    found = verify(spark, log, place)
    assert found.problems == []
    assert any("1 payloads were erased since" in text for text in found.unsure)
    assert holders(place)


@pytest.mark.security
def test_no_list_of_files_says_how_payloads_begin(spark: SparkSession, log: str, tmp_path: Path) -> None:
    """PIPE-02: payloads have no statistics, neither in new files nor copied from those of an earlier version."""
    place = tmp_path / "archive"
    archive(spark, log, place, until=5)
    archive(spark, log, place)
    _as_an_earlier_version_wrote_it(place)
    new, old = sorted((place / "data").iterdir())
    assert [_bounded(path, "payload") for path in (new, old)] == [False, True]
    assert _bounded(new, "position")
    register(place, ICEBERG)
    catalog = iceberg_catalog(place)
    for bounds in catalog.load_table((NAMESPACE, TABLE)).inspect.files()["lower_bounds"].to_pylist():
        assert [field for field, _ in bounds] == [1]
    catalog.close()


@pytest.mark.security
def test_a_list_that_is_begun_anew_leaves_nothing_of_the_one_before(
    spark: SparkSession, log: str, tmp_path: Path
) -> None:
    """PIPE-02: registering again removes the metadata of a table with parts of erased payloads."""
    place = tmp_path / "archive"
    archive(spark, log, place)
    register(place, ICEBERG)
    before = {path.name for path in (place / "iceberg").rglob("*.avro")}
    erase(log)
    archive(spark, log, place)
    register(place, ICEBERG)
    after = {path.name for path in (place / "iceberg").rglob("*.avro")}
    assert before
    assert after
    assert not before & after


def _as_an_earlier_version_wrote_it(place: Path) -> None:
    """The last file with statistics of every column."""
    found = manifest.load(place)
    bucket = found.buckets[-1]
    assert bucket.events is not None
    path = place / bucket.events.name
    pq.write_table(pq.read_table(path), path, store_schema=False)
    file = msgspec.structs.replace(bucket.events, sha256=archive_files.hash_of(path))
    last = msgspec.structs.replace(bucket, events=file)
    manifest.save(place, msgspec.structs.replace(found, buckets=[*found.buckets[:-1], last]))


def _bounded(path: Path, column: str) -> bool:
    group = pq.read_metadata(path).row_group(0)
    found = {group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)}
    return bool(found[column] is not None and found[column].has_min_max)


def test_a_manifest_without_a_row_of_the_one_before_is_not_put_in_place(
    spark: SparkSession, log: str, tmp_path: Path
) -> None:
    """PIPE-02, PIPE-06: the next manifest must have all rows and blocks of the one before, or it is refused."""
    place = tmp_path / "archive"
    archive(spark, log, place, bucket_events=10)
    before = manifest.load(place)
    fewer = Manifest(store_id=before.store_id, through=before.buckets[0].last, buckets=before.buckets[:1])
    with pytest.raises(errors.ArchiveDamaged):
        manifest.commit(place, before, fewer)
    assert manifest.load(place) == before
