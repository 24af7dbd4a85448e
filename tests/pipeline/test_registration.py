"""An archive as a table of Delta Lake and of Apache Iceberg: a second list of the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import errors, state
from tallystick.event.model import Event
from tallystick.pipeline.archive.registration import DELTA, ICEBERG, NAMESPACE, TABLE, iceberg_catalog, register
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.source.columns import COLUMNS, to_events
from tallystick.pipeline.whole_log import read_archive

MakeLog = Callable[..., None]
RowsOf = Callable[[DataFrame], list[Event]]


def _listed(place: Path, kind: str) -> list[Event]:
    """The rows as read by the format's own library."""
    if kind == DELTA:
        table = DeltaTable(str(place)).to_pyarrow_table()
    else:
        catalog = iceberg_catalog(place)
        table = catalog.load_table((NAMESPACE, TABLE)).scan().to_arrow()
        catalog.close()
    known = {"string": pa.string(), "large_string": pa.string(), "large_binary": pa.binary()}
    plain = [(field.name, known.get(str(field.type), field.type)) for field in table.schema]
    batches = table.cast(pa.schema(plain)).sort_by("position").select(COLUMNS).to_batches()
    return [event for batch in batches for event in to_events(batch)]


@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
def test_a_registered_archive_is_the_archive(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, rows_of: RowsOf, kind: str
) -> None:
    """PIPE-02: the table equals the archive, also after it has grown, and after an erasure has replaced files."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    archive(spark, files_url, place, bucket_events=20)
    assert register(place, kind).added == 2
    assert _listed(place, kind) == rows_of(read_archive(spark, place))
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    archive(spark, files_url, place, bucket_events=20, grace_seconds=0)
    done = register(place, kind)
    assert (done.added, done.removed, done.files) == (2, 1, 3)
    found = _listed(place, kind)
    assert found == rows_of(read_archive(spark, place))
    assert [(event.stream, event.seq) for event in found if event.payload is None] == [("order/o1", 1)]
    assert register(place, kind).added == 0


def test_another_format_is_refused(tmp_path: Path) -> None:
    """PIPE-02: an unknown format and a missing archive are refused by name."""
    with pytest.raises(errors.InvalidValue):
        register(tmp_path, "hudi")
    with pytest.raises(errors.ArchiveNotFound):
        register(tmp_path / "nowhere", DELTA)
