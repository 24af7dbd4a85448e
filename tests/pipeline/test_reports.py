"""Reports on a log: growth, SQL, and an archive with fewer files."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.model import Event
from tallystick.pipeline import clear
from tallystick.pipeline.archive import manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.compact import compact
from tallystick.pipeline.jobs.growth import growth
from tallystick.pipeline.jobs.growth_page import page
from tallystick.pipeline.jobs.query import sql
from tallystick.pipeline.jobs.verify import verify
from tallystick.pipeline.whole_log import read_archive

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]
DAY_NS = 86_400 * 10**9


def size_of(event: Event) -> int:
    """The size of an event in bytes."""
    text = len(event.stream) + len(event.type) + len(event.payload or b"") + len(event.meta)
    return text + 8 + 8 + 4 + 16 + 8 + 32 + 32


def test_growth_counts_every_byte(spark: SparkSession, files_url: str, stored: Stored) -> None:
    """EVT-13, PIPE-08: sizes by type, events and active streams per day, growth per day and month, and forecasts."""
    chance = random.Random(3)
    with tallystick.open(files_url) as store:
        for day in range(40):
            for number in range(day % 3):
                payload = {"text": "é" * chance.randrange(200)}
                event = NewEvent(f"order.t{number}", payload, time=20_000 * DAY_NS + day * DAY_NS + number)
                store.append(f"order/o{number}", event)
    events = stored(files_url)
    found = growth(spark, files_url)
    assert found.events == len(events)
    assert found.size == sum(map(size_of, events))
    assert {item.type: (item.events, item.size, item.largest) for item in found.types} == {
        type_: (len(its), sum(its), max(its))
        for type_ in ("order.t0", "order.t1")
        for its in [[size_of(event) for event in events if event.type == type_]]
    }
    assert (found.days[0].day, found.days[0].events, found.days[0].streams) == ("2024-10-05", 1, 1)
    recent = [event for event in events if event.time // DAY_NS > events[-1].time // DAY_NS - 28]
    assert found.events_a_day == pytest.approx(len(recent) / 28, abs=0.01)
    assert found.size_a_month == pytest.approx(30 * sum(map(size_of, recent)) / 28, abs=0.1)
    assert found.forecasts[0].events == found.events + round(len(recent) / 28 * 30)
    drawn = page(found)
    assert drawn.count("<svg") == 3
    assert "order.t1" in drawn


def test_payload_fields_are_reachable_by_name(spark: SparkSession, url: str, make_log: MakeLog, stored: Stored) -> None:
    """PIPE-10: `data.NAME` in SQL is the field of the payload, over archive and log alike."""
    make_log(url, events=30)
    query = "select data.customer_id, sum(data.cents) as cents from events group by all order by 1"
    expected: dict[str, int] = {}
    for event in stored(url):
        expected[event.data["customer_id"]] = expected.get(event.data["customer_id"], 0) + event.data["cents"]
    assert {row[0]: row[1] for row in sql(spark, url, query).collect()} == expected
    with pytest.raises(errors.JobFailed), clear():
        sql(spark, url, "select nothing from events").collect()


def test_small_buckets_are_merged_into_fewer_files(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-06: the same rows in fewer files, verified; the old files stay while readers may need them."""
    place = tmp_path / "archive"
    make_log(files_url, events=45)
    archive(spark, files_url, place, bucket_events=10)
    old = [bucket.events.name for bucket in manifest.load(place).buckets if bucket.events]
    done = compact(spark, place, bucket_events=30)
    assert (done.buckets_before, done.buckets_after, done.ok) == (5, 2, True)
    assert all((place / name).exists() for name in old)
    assert rows_of(read_archive(spark, place)) == stored(files_url)
    assert verify(spark, files_url, place).problems == []
    compact(spark, place, bucket_events=30, grace_seconds=0)
    archive(spark, files_url, place, grace_seconds=0)
    assert rows_of(read_archive(spark, place)) == stored(files_url)


def test_a_manifest_forgets_files_that_were_removed(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-06: a replaced file stays listed until it has been removed."""
    place = tmp_path / "archive"
    make_log(files_url, events=40)
    archive(spark, files_url, place, bucket_events=10)
    compact(spark, place, bucket_events=20, grace_seconds=0)
    gone = {item.name for item in manifest.load(place).superseded}
    assert len(gone) == 8
    assert not any((place / name).exists() for name in gone)
    compact(spark, place, bucket_events=40)
    waiting = {item.name for item in manifest.load(place).superseded}
    assert len(waiting) == 4
    assert not waiting & gone
    assert all((place / name).exists() for name in waiting)


def test_times_are_divided_as_whole_numbers(spark: SparkSession, files_url: str) -> None:
    """PIPE-08, PIPE-10: the last nanosecond of a day belongs to that day and to its last microsecond."""
    last = 20_001 * DAY_NS - 1
    with tallystick.open(files_url) as store:
        store.append("order/o1", NewEvent("order.noted", {"VOID": 7, "gone": None}, time=last))
    assert [day.day for day in growth(spark, files_url).days] == ["2024-10-04"]
    query = "select date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS') as at, data.VOID as number from events"
    assert [tuple(row) for row in sql(spark, files_url, query).collect()] == [("2024-10-04 23:59:59.999999", 7)]
