"""Files of an archive that were changed together with their hash in the manifest.

The log records only the blocks: which event is at which position. So every reader checks a file against its blocks,
does not use its statistics, and refuses a column of another type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import errors, state
from tallystick.pipeline import clear
from tallystick.pipeline.archive import archive_files, bucket_reader, manifest
from tallystick.pipeline.archive.registration import DELTA, register
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.query import sql
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.store import facts
from tallystick.testing.tamper import CHANGES, tamper

MakeLog = Callable[..., None]
Change = Callable[[pa.Table], pa.Table]
BETWEEN = "select position from events where position between 5 and 8 order by 1"


@pytest.fixture
def place(spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path) -> Path:
    """An archive of forty events in two buckets."""
    make_log(files_url, events=40)
    archive(spark, files_url, tmp_path / "archive", bucket_events=20)
    return tmp_path / "archive"


def forge(place: Path, change: Callable[[Path], None]) -> None:
    """Change the first file, and its hash and number of rows in the manifest, but not its blocks."""
    found = manifest.read(place)
    bucket = found.buckets[0]
    assert bucket.events is not None
    path = place / bucket.events.name
    change(path)
    file = msgspec.structs.replace(bucket.events, sha256=archive_files.hash_of(path), rows=archive_files.rows_in(path))
    first = msgspec.structs.replace(bucket, events=file)
    manifest.save(place, msgspec.structs.replace(found, buckets=[first, *found.buckets[1:]]))


def rewritten(change: Change, rows_a_group: int = 1000) -> Callable[[Path], None]:
    """Write another table into the file."""

    def run(path: Path) -> None:
        pq.write_table(change(pq.read_table(path)), path, row_group_size=rows_a_group, store_schema=False)

    return run


def exchanged(table: pa.Table) -> pa.Table:
    """Exchange the positions of two events of different streams."""
    rows = table.to_pylist()
    other = next(row for row in rows if row["stream"] != rows[0]["stream"])
    rows[0]["position"], other["position"] = other["position"], rows[0]["position"]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: int(row["position"])), schema=table.schema)


def other_link(table: pa.Table) -> pa.Table:
    """Replace the last event."""
    links = table["link"].to_pylist()
    return table.set_column(table.column_names.index("link"), "link", [pa.array([*links[:-1], links[0]], pa.binary())])


def positions_as_text(table: pa.Table) -> pa.Table:
    """Change the type of a column, with the same numbers."""
    return table.set_column(0, "position", [pa.array(map(str, table["position"].to_pylist()))])


def groups_swapped(path: Path) -> None:
    """Exchange two row groups."""
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema, store_schema=False) as file:
        file.write_table(table.slice(10))
        file.write_table(table.slice(0, 10))


def wrong_statistics(path: Path) -> None:
    """Let the footer claim the positions 901 to 920."""
    table = pq.read_table(path)
    pq.write_table(table, path, store_schema=False, compression="none", use_dictionary=False)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size :]
    for position in (1, 20):
        text = position.to_bytes(8, "little")
        at = footer.index(b"\x08" + text)
        footer = footer[: at + 1] + (900 + position).to_bytes(8, "little") + footer[at + 9 :]
        footer = footer.replace(b"\x18\x08" + text, b"\x18\x08" + (900 + position).to_bytes(8, "little"))
    path.write_bytes(body + footer)
    assert pq.read_metadata(path).row_group(0).column(0).statistics.min == 901


FORGED = {
    "positions exchanged": rewritten(exchanged),
    "another last event": rewritten(other_link),
    "a column of another form": rewritten(positions_as_text),
    "row groups swapped": groups_swapped,
}


@pytest.mark.security
@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_no_reader_takes_a_file_that_does_not_have_its_blocks(
    spark: SparkSession, files_url: str, place: Path, change: Callable[[Path], None]
) -> None:
    """SAFE-01, PIPE-10: SQL refuses the file, also if the query needs other columns; verify names it."""
    forge(place, change)
    with pytest.raises(errors.ArchiveDamaged), clear():
        sql(spark, files_url, "select count(distinct type) from events", place).collect()
    assert not verify(spark, files_url, place).ok


@pytest.mark.security
def test_statistics_decide_nothing(spark: SparkSession, files_url: str, place: Path) -> None:
    """SAFE-05, PIPE-10: rows that the footer excludes are read; verify reports that the footer is wrong."""
    forge(place, wrong_statistics)
    assert [row[0] for row in sql(spark, files_url, BETWEEN, place).collect()] == [5, 6, 7, 8]
    found = verify(spark, files_url, place)
    assert any("statistics" in problem.reason for problem in found.problems)


@pytest.mark.security
@pytest.mark.parametrize("shares", [1, 2, 3, 7])
def test_shares_of_a_file_check_every_block_between_them(place: Path, shares: int) -> None:
    """SAFE-01: the shares of a file with many row groups have every row; if one row is changed, a share refuses."""
    forge(place, rewritten(lambda table: table, rows_a_group=3))
    assert sorted(_positions(place, shares)) == list(range(1, 21))
    for change in (exchanged, other_link):
        forge(place, rewritten(change, rows_a_group=3))
        with pytest.raises(errors.ArchiveDamaged):
            list(_positions(place, shares))


def _positions(place: Path, shares: int) -> Iterator[int]:
    whole = bucket_reader.file_of(manifest.read(place).buckets[0])
    assert whole is not None
    for share in range(shares):
        file = msgspec.structs.replace(whole, share=share, shares=shares)
        for batch in bucket_reader.read(str(place), file, ("position", "type")):
            yield from batch.column(0).to_pylist()


@pytest.mark.security
def test_a_changed_file_is_not_registered(place: Path) -> None:
    """PIPE-02: only files that are as they were archived are registered as a table."""
    file = manifest.read(place).buckets[0].events
    assert file is not None
    rewritten(lambda table: table.slice(1))(place / file.name)
    with pytest.raises(errors.ArchiveDamaged):
        register(place, DELTA)


@pytest.mark.security
def test_every_changed_payload_of_the_live_log_is_named(spark: SparkSession, make_log: MakeLog, tmp_path: Path) -> None:
    """SAFE-03, PIPE-03: one damaged file does not hide the next one of its bucket."""
    url, place = f"sqlite:{tmp_path}/log.db", tmp_path / "archive"
    make_log(url, events=20)
    archive(spark, url, place)
    with tallystick.open(url, readonly=True) as store:
        chosen = [event for event in store.read(limit=100).events if event.position in (6, 13)]
    data = (tmp_path / "log.db").read_bytes()
    for event in chosen:
        assert event.payload is not None
        data = data.replace(event.payload, event.payload.replace(b"cents", b"CENTS"))
    (tmp_path / "log.db").write_bytes(data)
    found = verify(spark, url, place)
    assert {6, 13} <= {problem.position for problem in found.problems}


def test_columns_of_an_archive_are_those_of_events(place: Path) -> None:
    """PIPE-02: written files have the columns and types that readers require."""
    file = manifest.read(place).buckets[0].events
    assert file is not None
    assert tuple(pq.read_schema(place / file.name).names) == COLUMNS


@pytest.mark.security
@pytest.mark.parametrize("type_", [facts.ERASED, facts.PRUNED])
def test_a_damaged_control_fact_does_not_end_verify(
    spark: SparkSession, make_log: MakeLog, prune: Callable[..., None], tmp_path: Path, type_: str
) -> None:
    """SAFE-03, PIPE-03: an unreadable fact is reported, and so is other damage."""
    url, place = f"sqlite:{tmp_path}/log.db", tmp_path / "archive"
    make_log(url, events=20)
    archive(spark, url, place, bucket_events=10)
    prune(url, "order/o1", 1)
    with tallystick.open(url) as store:
        state.erase(store, "order/o2", 1, reason="asked")
        (fact,) = [event for event in store.events(over_pruned=True) if event.type == type_]
    tamper(url, fact.stream, fact.seq, CHANGES["time"])
    file = manifest.read(place).buckets[1].events
    assert file is not None
    (place / file.name).unlink()
    found = verify(spark, url, place)
    assert any(problem.stream == fact.stream or problem.position == fact.position for problem in found.problems)
    assert any("missing" in problem.reason for problem in found.problems)
