"""`growth`: what a log holds and how fast it grows: sizes by type, events and activity per day, and a forecast.

A size counts the bytes of an event itself: payload, meta, names and hashes, not its size in an engine or in Parquet.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.whole_log import whole_log
from tallystick.store.urls import redacted

FORECAST_DAYS = (30, 90, 365)
RECENT_DAYS = 28
MONTH_DAYS = 30
_FIXED_BYTES = 8 + 8 + 4 + 16 + 8 + 32 + 32  # position, seq, version, id, time, checksum, link
_DAY_NS = 86_400 * 1_000_000_000
_COLUMNS = ("stream", "type", "time", "payload", "meta", "signature")


class TypeGrowth(msgspec.Struct, frozen=True, kw_only=True):
    """One event type: the number and sizes of its events."""

    type: str
    events: int
    size: int
    mean: float
    largest: int


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """One day, by the times of events: how many events, of what size, in how many streams."""

    day: str
    events: int
    size: int
    streams: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The log after `days` more days, if it grows as in the last four weeks."""

    days: int
    events: int
    size: int


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report. Growth per day is the mean over the last 28 days of the log."""

    url: str
    until: int
    events: int
    size: int
    types: list[TypeGrowth]
    days: list[Day]
    events_a_day: float
    size_a_day: float
    size_a_month: float
    forecasts: list[Forecast]


def growth(
    spark: SparkSession, url: str, archive: str | Path | None = None, *, show: Show | None = None
) -> GrowthReport:
    """Report on all events of a log and its archive."""
    with clear(), watched(spark, "growth", show):
        source = whole_log(url, archive, over_pruned=True, ordered=False, spark=spark)
        table = event_sizes(source.table(spark, columns=_COLUMNS)).persist()
        try:
            types = [_type(row.asDict()) for row in by_type(table).collect()]
            days = [Day(**row.asDict()) for row in by_day(table).collect()]
        finally:
            table.unpersist()
    return report(url, source.until, types, days)


def event_sizes(events: DataFrame) -> DataFrame:
    """(type, stream, day, size) of every event."""
    names = ("stream", "type", "payload", "meta", "signature")
    size: Column = F.lit(_FIXED_BYTES)
    for name in names:
        size = size + F.coalesce(F.octet_length(name), F.lit(0))
    day = F.date_from_unix_date(F.expr(f"time div {_DAY_NS}").cast("int")).cast("string")
    return events.select("type", "stream", day.alias("day"), size.cast("bigint").alias("size"))


def by_type(table: DataFrame) -> DataFrame:
    """Sizes by event type, the largest share first."""
    found = table.groupBy("type").agg(
        F.count(F.lit(1)).alias("events"), F.sum("size").alias("size"), F.max("size").alias("largest")
    )
    return found.orderBy(F.desc("size"), "type")


def by_day(table: DataFrame) -> DataFrame:
    """Events, bytes and active streams per day."""
    found = table.groupBy("day").agg(
        F.count(F.lit(1)).alias("events"), F.sum("size").alias("size"), F.countDistinct("stream").alias("streams")
    )
    return found.orderBy("day")


def _type(row: dict[str, int]) -> TypeGrowth:
    return TypeGrowth(mean=round(row["size"] / row["events"], 1), **row)  # type: ignore[arg-type]


def report(url: str, until: int, types: list[TypeGrowth], days: list[Day]) -> GrowthReport:
    """The report on these counts."""
    events, size = sum(item.events for item in types), sum(item.size for item in types)
    events_a_day, size_a_day = _recent(days)
    forecasts = [
        Forecast(days=ahead, events=events + round(events_a_day * ahead), size=size + round(size_a_day * ahead))
        for ahead in FORECAST_DAYS
    ]
    return GrowthReport(
        url=redacted(url),
        until=until,
        events=events,
        size=size,
        types=types,
        days=days,
        events_a_day=round(events_a_day, 2),
        size_a_day=round(size_a_day, 2),
        size_a_month=round(size_a_day * MONTH_DAYS, 2),
        forecasts=forecasts,
    )


def _recent(days: list[Day]) -> tuple[float, float]:
    """Events and bytes per day over the last days; days without events count too."""
    if not days:
        return 0.0, 0.0
    last = datetime.date.fromisoformat(days[-1].day)
    first = max(datetime.date.fromisoformat(days[0].day), last - datetime.timedelta(days=RECENT_DAYS - 1))
    recent = [item for item in days if datetime.date.fromisoformat(item.day) >= first]
    span = (last - first).days + 1
    return sum(item.events for item in recent) / span, sum(item.size for item in recent) / span
