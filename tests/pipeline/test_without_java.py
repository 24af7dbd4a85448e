"""An archive in DuckDB, Polars and pyarrow: one call each, over checked files, without a Spark session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.archive import manifest
from tallystick.pipeline.file_list import files
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.source.columns import COLUMNS, to_events

Stored = Callable[[str], list[Event]]
Read = Callable[[list[str]], pa.Table]


def by_duckdb(paths: list[str]) -> pa.Table:
    """All of it by DuckDB."""
    return duckdb.read_parquet(paths).order("position").to_arrow_table()


def by_polars(paths: list[str]) -> pa.Table:
    """All of it by Polars."""
    return polars.scan_parquet(paths).sort("position").collect().to_arrow()


def by_pyarrow(paths: list[str]) -> pa.Table:
    """All of it by pyarrow."""
    return dataset.dataset(paths).to_table().sort_by("position")


def events(table: pa.Table) -> list[Event]:
    """The rows as events."""
    plain = [(field.name, _PLAIN.get(str(field.type), field.type)) for field in table.schema]
    return [event for batch in table.cast(pa.schema(plain)).select(COLUMNS).to_batches() for event in to_events(batch)]


_PLAIN = {
    "string_view": pa.string(),
    "large_string": pa.string(),
    "binary_view": pa.binary(),
    "large_binary": pa.binary(),
}


@pytest.fixture
def archived(spark: SparkSession, files_url: str, make_log: Callable[..., None], tmp_path: Path) -> Path:
    """An archive after a merge and an erasure: `data/` has more files than the archive."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    archive(spark, files_url, place, bucket_events=10)
    compact(spark, place, bucket_events=20)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 2, reason="asked")
    archive(spark, files_url, place, bucket_events=20)
    assert len(list((place / "data").iterdir())) > len(manifest.load(place).buckets)
    return place


@pytest.mark.parametrize("read", [by_duckdb, by_polars, by_pyarrow])
def test_it_is_the_log(archived: Path, files_url: str, stored: Stored, read: Read) -> None:
    """PIPE-02: every event once, byte for byte; the erased payload is null."""
    assert events(read(files(archived))) == stored(files_url)


def test_a_predicate_chooses_files(archived: Path, files_url: str, stored: Stored) -> None:
    """PIPE-02: files can be chosen by position and by stream; they hold all selected events."""
    assert [Path(name).name[:19] for name in files(archived, after=20, until=30)] == [f"{21:019d}"]
    assert len(files(archived)) == 3
    assert files(archived, after=1000) == []
    erased = next(event for event in stored(files_url) if event.stream.startswith("tally."))
    (name,) = files(archived, streams=[erased.stream])
    assert erased in events(by_pyarrow([name]))
    assert files(archived, streams=["order/nobody"]) == []


def test_a_file_that_is_not_as_it_was_archived_is_not_listed(archived: Path) -> None:
    """PIPE-03: a changed byte in events or heads, or a missing file, is refused by name."""
    heads = manifest.load(archived).buckets[0].heads
    assert heads is not None
    for name in (files(archived)[0], str(archived / heads.name)):
        path = Path(name)
        before = path.read_bytes()
        path.write_bytes(before[:100] + bytes([before[100] ^ 1]) + before[101:])
        with pytest.raises(errors.ArchiveDamaged):
            files(archived, streams=["order/o1"])
        path.unlink()
        with pytest.raises(errors.ArchiveDamaged):
            files(archived, streams=["order/o1"])
        path.write_bytes(before)
    assert files(archived)


def test_an_archive_in_a_store_is_copied(
    spark: SparkSession,
    files_url: str,
    make_log: Callable[..., None],
    bucket_url: str,
    stored: Stored,
    tmp_path: Path,
) -> None:
    """PIPE-02: an object store needs a directory for checked copies, which are made once."""
    make_log(files_url, events=20)
    archive(spark, files_url, bucket_url, bucket_events=10)
    with pytest.raises(errors.InvalidValue, match="copies"):
        files(bucket_url)
    found = files(bucket_url, copies=tmp_path / "copies")
    assert events(by_polars(found)) == stored(files_url)
    Path(found[0]).write_bytes(b"changed")
    assert files(bucket_url, copies=tmp_path / "copies") == found
    assert events(by_duckdb(found)) == stored(files_url)


def test_no_java_is_started(archived: Path) -> None:
    """PIPE-02: it works with a JAVA_HOME without Java, and no Java on the path."""
    code = f"from tallystick.pipeline.file_list import files; print(len(files({str(archived)!r})))"
    surroundings = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
