"""`spark.read.format("tallystick")`: all events of a log, as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.event.model import Event
from tallystick.pipeline import clear, read_events
from tallystick.pipeline.source.columns import COLUMNS

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]


def test_a_table_holds_every_event_as_stored(
    spark: SparkSession, url: str, make_log: MakeLog, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-01: every field of every event, for all partitions and engines."""
    make_log(url)
    whole = stored(url)
    assert rows_of(read_events(spark, url)) == whole
    table = read_events(spark, url, partition_events=7)
    assert table.rdd.getNumPartitions() == -(-len(whole) // 7)
    assert rows_of(table) == whole


def test_bounds_and_selection(
    spark: SparkSession, url: str, make_log: MakeLog, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-01: `after`, `until`, `stream`, `type` and `tenant` select the same events as the store."""
    make_log(url)
    whole = stored(url)
    assert rows_of(_chosen(spark, url, after="10", until="20")) == whole[10:20]
    wanted = [event for event in whole if event.stream in ("order/o1", "order/o2") and event.type == "order.paid"]
    assert rows_of(_chosen(spark, url, stream="order/o1,order/o2", type="order.paid")) == wanted
    bolt = [event for event in whole if event.metadata.get("org") == "bolt"]
    assert rows_of(_chosen(spark, url, tenant="bolt")) == bolt
    assert wanted
    assert bolt


def _chosen(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("tallystick").option("url", url).options(**options).load()


def test_columns_are_pruned_by_the_schema(
    spark: SparkSession, files_url: str, make_log: MakeLog, stored: Stored
) -> None:
    """PIPE-01: `.schema(...)` decides which columns are read."""
    make_log(files_url, events=5)
    table = spark.read.format("tallystick").schema("seq bigint, stream string").load(files_url)
    assert table.columns == ["seq", "stream"]
    assert [tuple(row) for row in table.collect()] == [(event.seq, event.stream) for event in stored(files_url)]


def test_one_table_is_one_moment(spark: SparkSession, url: str, make_log: MakeLog) -> None:
    """PIPE-01: queries of one table agree, also after appends; a filter of one query does not affect the next."""
    make_log(url, events=20)
    table = read_events(spark, url)
    assert table.count() == 20
    assert table.filter("position > 15").count() == 5
    make_log(url, events=10, seed=2)
    assert table.count() == 20
    assert table.filter("position > 15").union(table.filter("position <= 15")).count() == 20
    assert read_events(spark, url).count() == 30


def test_never_past_the_head_that_was_planned(spark: SparkSession, url: str, make_log: MakeLog) -> None:
    """PIPE-01: an upper bound beyond the head means the head."""
    make_log(url, events=9)
    assert read_events(spark, url, until=1_000_000).count() == 9
    assert read_events(spark, url, after=9).count() == 0


def test_erased_payloads_are_null(
    spark: SparkSession, url: str, make_log: MakeLog, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-01, EVT-14: an erased payload is null, the envelope stays."""
    make_log(url)
    with tallystick.open(url) as store:
        state.erase(store, "order/o1", 2, reason="asked")
    found = rows_of(read_events(spark, url))
    assert found == stored(url)
    assert [(event.stream, event.seq) for event in found if event.payload is None] == [("order/o1", 2)]


def test_pruned_history_is_refused_or_left_out(
    spark: SparkSession, url: str, make_log: MakeLog, prune: Callable[..., None], stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-01: below the floor a read is refused by name, unless the rest was asked for."""
    make_log(url)
    prune(url, "order/o1", 3)
    with pytest.raises(errors.HistoryPruned), clear():
        read_events(spark, url).count()
    assert rows_of(read_events(spark, url, over_pruned=True, over_holes=True)) == stored(url)


def test_sql_view_over_the_format(spark: SparkSession, files_url: str, make_log: MakeLog) -> None:
    """PIPE-10: the format works with SQL only."""
    make_log(files_url, events=12)
    spark.sql(f"create or replace temporary view of_files using tallystick options (url '{files_url}')")
    assert spark.sql("select count(*), max(position) from of_files").first() == (12, 12)


@pytest.mark.parametrize(
    ("options", "schema", "expected"),
    [
        ({"url": "nothing"}, None, errors.UnknownUrl),
        ({"url": "files:does/not/exist"}, None, errors.StoreNotFound),
        ({"url": "memory:"}, None, errors.NotForSpark),
        ({}, None, errors.InvalidValue),
        ({"url": "files:x", "after": "-1"}, None, errors.InvalidValue),
        ({"url": "files:x", "colour": "red"}, None, errors.InvalidValue),
        ({"url": "files:x", "type": "not a type"}, None, errors.InvalidName),
        ({"url": "files:x"}, "position string", errors.SchemaMisfit),
        ({"url": "files:x"}, "place bigint", errors.SchemaMisfit),
    ],
)
def test_bad_input_is_one_clear_error(
    spark: SparkSession, options: dict[str, str], schema: str | None, expected: type[errors.TallyError]
) -> None:
    """PIPE-01: a wrong option, URL or schema raises the store's own error, in one line."""
    read = spark.read.format("tallystick").options(**options)
    with pytest.raises(expected) as caught, clear():
        (read.schema(schema) if schema else read).load().count()
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_an_unreadable_segment_is_one_clear_error(
    spark: SparkSession, tmp_path: Path, make_log: MakeLog, rows_of: RowsOf
) -> None:
    """PIPE-01: damage is refused with its range; the rest can be read on request."""
    url = f"files:{tmp_path}/log"
    make_log(url, events=40)
    log = tmp_path / "log" / "current.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(errors.Damaged) as caught, clear():
        read_events(spark, url).count()
    assert caught.value.values["first"] > 1
    left = {event.position for event in rows_of(read_events(spark, url, over_pruned=True, over_holes=True))}
    assert 30 < len(left) < 40


def test_a_wide_event_travels(spark: SparkSession, files_url: str, stored: Stored, rows_of: RowsOf) -> None:
    """PIPE-01: a payload of a megabyte arrives whole."""
    with tallystick.open(files_url) as store, pytest.warns(errors.LargeEventWarning):
        store.append("order/big", NewEvent("order.noted", {"text": "é" * 500_000}))
    (event,) = rows_of(read_events(spark, files_url))
    assert event == stored(files_url)[0]
    assert len(COLUMNS) == 12
