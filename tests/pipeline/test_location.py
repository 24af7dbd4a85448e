"""The location of an archive or a checkpoint. An unknown URL is refused, not taken for the name of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import errors
from tallystick.pipeline.archive.coverage import ArchiveCoverage
from tallystick.pipeline.archive.registration import register
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.growth import growth
from tallystick.pipeline.jobs.stream import stream
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import whole_log
from tallystick.projections import Projection

PLACES = ("ftp://host/x", "hdfs://host:8020/x", Path("s3a://bucket/x"))


class Nothing(Projection):
    """Keeps nothing."""

    types = ("order.paid",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """Nothing."""
        return found


@pytest.mark.security
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_an_archive_at_an_unknown_url_is_refused(
    spark: SparkSession,
    files_url: str,
    make_log: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str | Path,
) -> None:
    """SAFE-07, PIPE-02: no job reads or writes a folder of that name in its working directory."""
    monkeypatch.chdir(tmp_path)
    make_log(files_url, events=3)
    jobs: list[Callable[[], object]] = [
        lambda: archive(spark, files_url, place),
        lambda: compact(spark, place),
        lambda: verify(spark, files_url, place),
        lambda: growth(spark, files_url, place),
        lambda: whole_log(files_url, place),
        lambda: register(place, "delta"),
    ]
    for job in jobs:
        with pytest.raises(errors.InvalidValue, match="must be a directory"):
            job()
    with tallystick.open(files_url) as store, pytest.raises(errors.InvalidValue):
        ArchiveCoverage(place, store)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_directory_may_have_a_colon_in_its_name(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """PIPE-02: a path with a colon is not a URL."""
    tallystick.open(files_url).close()
    assert archive(spark, files_url, tmp_path / "2026-11-18T20:44").rows == 0


@pytest.mark.parametrize("place", ["s3a://bucket/x", "gs://bucket/x", "abfss://c@a/x", "ftp+x://host/x"])
def test_a_checkpoint_that_spark_cannot_reach_is_refused(
    spark: SparkSession, files_url: str, make_log: Callable[..., None], place: str
) -> None:
    """PIPE-07: it is refused before anything starts; the error names what Spark lacks."""
    make_log(files_url, events=3)
    with pytest.raises(errors.InvalidValue, match=r"checkpoint is .* Spark can reach"):
        stream(spark, files_url, Nothing(), place)


def test_archive_and_checkpoint_may_be_file_urls(
    spark: SparkSession, files_url: str, make_log: Callable[..., None], tmp_path: Path
) -> None:
    """PIPE-02, PIPE-07: `file:///PATH` is the directory of that path."""
    make_log(files_url, events=3)
    assert archive(spark, files_url, f"file://{tmp_path}/the%20archive").rows == 3
    assert whole_log(files_url, tmp_path / "the archive").through == 3
    stream(spark, files_url, Nothing(), f"file://{tmp_path}/the%20checkpoint").awaitTermination()
    assert (tmp_path / "the checkpoint" / "commits").is_dir()


def test_only_a_directory_can_be_registered() -> None:
    """PIPE-02: registering an archive in an object store is refused by name."""
    with pytest.raises(errors.InvalidValue, match="archive to register"):
        register("s3://bucket/x", "delta")
