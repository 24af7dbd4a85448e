"""A log as a table of a lake format: every event once, erasures, other readers, and what is refused."""

from __future__ import annotations

import builtins
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.event.model import Event
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.lake.check import verify
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.events import append
from tallystick.pipeline.lake.schema import bucket_of
from tallystick.pipeline.lake.table import FORMATS
from tallystick.pipeline.storage.port import storage_at
from tests.pipeline.lake_tables import bounded, events_of, rows_of

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
Prune = Callable[..., None]
SECRET = "sixteen letters and more"


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the table is."""
    return tmp_path / "table"


def holders(place: Path) -> list[str]:
    """The files of a table that contain the secret, in rows, in statistics or anywhere else."""
    found = []
    for path in sorted(item for item in place.rglob("*") if item.is_file()):
        if path.suffix == ".parquet":
            payloads = pq.ParquetFile(path).read(columns=["payload"])["payload"].to_pylist()
            footer = repr(pq.read_metadata(path).to_dict())
            found += [path.name] if any(SECRET in (text or "") for text in payloads) or SECRET[:8] in footer else []
        elif SECRET[:8].encode() in path.read_bytes():
            found.append(path.name)
    return found


def test_each_event_is_in_the_table_once(url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str) -> None:
    """PIPE-02: several commits, a run with nothing to do, and a log that has grown; with every engine."""
    make_log(url, events=50)
    done = append(url, place, kind, commit_events=20)
    assert (done.events, done.commits, done.through) == (50, 3, 50)
    assert append(url, place).commits == 0
    make_log(url, events=10, seed=2)
    assert append(url, place).events == 10
    assert events_of(place, kind) == stored(url)
    found = verify(url, place)
    assert (found.problems, found.events, found.unsure) == ([], 60, [])


def test_rows_are_partitioned_by_day_and_bucket(files_url: str, place: Path, kind: str) -> None:
    """PIPE-02: the day is computed from the event's time, the bucket from its stream."""
    day = 86_400 * 10**9
    days = {"order/a": (day - 1, "1970-01-01"), "order/b": (day, "1970-01-02"), "run/c": (2**63 - 1, "2262-04-11")}
    with tallystick.open(files_url) as store:
        for stream, (time, _) in days.items():
            store.append(stream, NewEvent("x.noted", {}, time=time))
    append(files_url, place, kind, buckets=4)
    for row in rows_of(place, kind).to_pylist():
        assert str(row["day"]) == days[row["stream"]][1]
        assert row["bucket"] == bucket_of(row["stream"], 4)
        assert row["kind"] == row["stream"].partition("/")[0]
    assert verify(files_url, place).ok


def test_a_pruned_history_comes_from_the_archive(
    spark: SparkSession, files_url: str, make_log: MakeLog, stored: Stored, prune: Prune, place: Path, kind: str
) -> None:
    """PIPE-02: a new table of a pruned log needs the archive; a table with the history continues without it."""
    make_log(files_url, events=60)
    archive(spark, files_url, place.parent / "archive", bucket_events=25)
    everything = stored(files_url)
    append(files_url, place, kind)
    prune(files_url, "order/o1", 3)
    other = place.parent / "other"
    with pytest.raises(errors.HistoryPruned):
        append(files_url, other, kind)
    append(files_url, other, archive=place.parent / "archive", commit_events=30)
    append(files_url, place)
    assert events_of(place, kind)[:60] == events_of(other, kind)[:60] == everything
    assert verify(files_url, other, place.parent / "archive").problems == []
    alone = verify(files_url, place)
    assert alone.problems == []
    assert any("3 events were pruned" in text for text in alone.unsure)
    compact(spark, place.parent / "archive", bucket_events=1000)
    assert verify(files_url, other, place.parent / "archive").problems == []


def test_a_table_that_knows_more_than_the_archive_is_no_finding(
    spark: SparkSession, files_url: str, make_log: MakeLog, prune: Prune, place: Path, kind: str
) -> None:
    """PIPE-03: if events were pruned before they were archived, only the table has them: their chain is checked."""
    make_log(files_url, events=40)
    append(files_url, place, kind)
    prune(files_url, "order/o1", 2)
    archive(spark, files_url, place.parent / "archive")
    found = verify(files_url, place, place.parent / "archive")
    assert found.problems == []
    assert any("2 events were pruned" in text for text in found.unsure)


def test_an_empty_log_has_an_empty_table(files_url: str, place: Path, kind: str) -> None:
    """PIPE-02: an empty log gives a table without rows, which verifies."""
    with tallystick.open(files_url):
        pass
    assert append(files_url, place, kind).events == 0
    assert verify(files_url, place).ok


def test_what_is_not_ours_stays(spark: SparkSession, files_url: str, make_log: MakeLog, place: Path, kind: str) -> None:
    """PIPE-02: a new table needs an empty directory; files that others put there later are not removed."""
    make_log(files_url, events=5)
    archive(spark, files_url, place.parent / "archive")
    with pytest.raises(errors.WrongTable, match="it has other files"):
        append(files_url, place.parent / "archive", kind)
    append(files_url, place, kind)
    mine = [place / "mine.parquet", place / "data" / "mine.parquet", place / "metadata" / "mine.avro"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    assert append(files_url, place, forget=True).left == 0
    assert all(path.exists() for path in mine)


@pytest.mark.security
def test_an_erasure_reaches_the_table(
    spark: SparkSession, files_url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str
) -> None:
    """PIPE-02: the next run removes the payload, and reports the files that still have it; `forget` removes those."""
    make_log(files_url, events=20)
    with tallystick.open(files_url) as store:
        store.append("order/secret", NewEvent("order.noted", {"text": SECRET}, meta={"note": "kept"}))
    make_log(files_url, events=20, seed=2)
    archive(spark, files_url, place.parent / "archive", until=30)
    append(files_url, place, kind, commit_events=15, archive=place.parent / "archive")
    assert len(holders(place)) == 1
    with tallystick.open(files_url) as store:
        state.erase(store, "order/secret", 1, reason="asked")
    waiting = verify(files_url, place, place.parent / "archive")
    assert waiting.problems == []
    assert any("1 payloads were erased since" in text for text in waiting.unsure)
    done = append(files_url, place)
    assert (done.erased, done.left) == (1, 1)
    assert events_of(place, kind) == stored(files_url)
    assert holders(place)
    assert any("old versions" in text for text in verify(files_url, place).unsure)
    again = append(files_url, place, forget=True)
    assert (again.erased, again.left) == (0, 0)
    assert again.removed
    assert holders(place) == []
    assert events_of(place, kind) == stored(files_url)
    found = verify(files_url, place, place.parent / "archive")
    assert (found.problems, found.unsure, found.erased) == ([], [], 1)


@pytest.mark.security
def test_the_table_says_nothing_of_payloads(files_url: str, make_log: MakeLog, place: Path, kind: str) -> None:
    """PIPE-02: only positions have bounds: an erasure does not reach copies of bounds."""
    make_log(files_url, events=20)
    append(files_url, place, kind)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    append(files_url, place)
    assert bounded(place, kind) == {"position"}


@pytest.mark.security
def test_what_was_erased_before_never_gets_there(
    spark: SparkSession, files_url: str, make_log: MakeLog, place: Path, kind: str
) -> None:
    """PIPE-02: the archive still has a payload that was erased since its last run; the table does not get it."""
    with tallystick.open(files_url) as store:
        store.append("order/secret", NewEvent("order.noted", {"text": SECRET}))
    make_log(files_url, events=10)
    archive(spark, files_url, place.parent / "archive")
    with tallystick.open(files_url) as store:
        state.erase(store, "order/secret", 1, reason="asked")
    append(files_url, place, kind, archive=place.parent / "archive")
    assert holders(place) == []
    assert verify(files_url, place, place.parent / "archive").problems == []


def test_other_tools_read_it(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: DuckDB, Polars and pyarrow give the rows of the log."""
    make_log(files_url, events=50)
    append(files_url, place, kind, commit_events=20)
    expected = [(event.position, event.stream, (event.payload or b"").decode()) for event in stored(files_url)]
    if kind == "delta":
        frame = polars.read_delta(str(place)).sort("position")
    else:
        monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        frame = polars.scan_iceberg(DirectoryCatalog(storage_at(place)).load_table()).sort("position").collect()
    assert frame.select("position", "stream", "payload").rows() == expected
    events = rows_of(place, kind)
    found = duckdb.sql("select position, stream, payload from events order by position").fetchall()
    assert found == expected
    assert events.num_rows == 50


def test_files_put_together_by_another_tool_are_no_finding(
    files_url: str, make_log: MakeLog, stored: Stored, place: Path
) -> None:
    """PIPE-02: OPTIMIZE of Delta changes files but no rows, and the next run continues."""
    make_log(files_url, events=50)
    append(files_url, place, "delta", commit_events=10, buckets=2)
    before = verify(files_url, place).files
    DeltaTable(str(place)).optimize.compact()
    make_log(files_url, events=10, seed=2)
    append(files_url, place)
    found = verify(files_url, place)
    assert (found.problems, found.events) == ([], 60)
    assert found.files < before
    assert events_of(place, "delta") == stored(files_url)


def test_the_mark_outlives_the_log_of_the_table(files_url: str, make_log: MakeLog, stored: Stored, place: Path) -> None:
    """PIPE-02: a tool may remove entries of Delta's log that are in a checkpoint."""
    make_log(files_url, events=105)
    append(files_url, place, "delta", commit_events=1, buckets=1)
    checkpoints = sorted(place.glob("_delta_log/*.checkpoint.parquet"))
    assert checkpoints
    for path in place.glob("_delta_log/*.json"):
        if path.name < checkpoints[-1].name:
            path.unlink()
    make_log(files_url, events=5, seed=2)
    assert append(files_url, place).events == 5
    assert events_of(place, "delta") == stored(files_url)
    assert verify(files_url, place).problems == []


def test_any_reader_of_iceberg_finds_the_newest_version(files_url: str, make_log: MakeLog, place: Path) -> None:
    """PIPE-02: without our catalog, by the version hint."""
    make_log(files_url, events=20)
    append(files_url, place, "iceberg", commit_events=8)
    table = StaticTable.from_metadata(str(place))
    assert table.scan().to_arrow().num_rows == 20
    assert [item.summary["tallystick.through"] for item in table.snapshots() if item.summary] == ["8", "16", "20"]


def test_what_is_not_of_this_log_is_refused(
    files_url: str, make_log: MakeLog, tmp_path: Path, place: Path, kind: str
) -> None:
    """PIPE-02: a table of another log, with other buckets, of another format or tool, and a missing table."""
    make_log(files_url, events=5)
    other = f"files:{tmp_path}/other"
    make_log(other, events=5)
    with pytest.raises(errors.TableNotFound):
        append(files_url, place)
    append(files_url, place, kind, buckets=4)
    for run in (append, verify):
        with pytest.raises(errors.WrongTable, match="of store"):
            run(other, place)
    with pytest.raises(errors.WrongTable, match="4 buckets"):
        append(files_url, place, buckets=5)
    with pytest.raises(errors.InvalidValue):
        append(files_url, place, "hudi")
    with pytest.raises(errors.InvalidValue, match="hdfs"):
        append(files_url, "hdfs://host/table", kind)
    assert verify(files_url, place).ok


def test_a_table_of_another_history_is_refused(files_url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> None:
    """PIPE-02: after a backup was restored and the log grew differently, nothing is appended to the table."""
    make_log(files_url, events=10)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    make_log(files_url, events=5, seed=2)
    append(files_url, tmp_path / "table", kind)
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "copy").rename(tmp_path / "log")
    with pytest.raises(errors.WrongTable, match="the log only to"):
        append(files_url, tmp_path / "table")
    make_log(files_url, events=9, seed=3)
    with pytest.raises(errors.WrongTable, match="another event at position 15"):
        append(files_url, tmp_path / "table")


def test_a_library_that_is_missing_is_named(
    files_url: str, make_log: MakeLog, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-02: without the library of the format, the error says what to install."""
    make_log(files_url, events=5)
    library = {"delta": "deltalake", "iceberg": "pyiceberg"}[kind]
    real = builtins.__import__

    def missing(name: str, *given: Any, **more: Any) -> Any:
        if name.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *given, **more)

    ours = ("tallystick.pipeline.lake.delta", "tallystick.pipeline.lake.iceberg")
    for name in [name for name in sys.modules if name in ours]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(errors.LakeMissing, match=library):
        append(files_url, place, kind)
    assert not place.exists()


def test_a_damaged_log_is_named_and_nothing_is_added(
    files_url: str, make_log: MakeLog, tmp_path: Path, place: Path, kind: str
) -> None:
    """PIPE-02: an error in the rows is raised as it is, not as the error that the library makes of it."""
    make_log(files_url, events=30)
    append(files_url, place, kind, commit_events=10)
    make_log(files_url, events=30, seed=2)
    path = tmp_path / "log" / "current.log"
    body = bytearray(path.read_bytes())
    body[len(body) * 3 // 4] ^= 1
    path.write_bytes(bytes(body))
    with pytest.raises(errors.Damaged):
        append(files_url, place)
    assert len(events_of(place, kind)) == 30
