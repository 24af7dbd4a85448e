"""`spark.readStream.format("tallystick")`: offsets are positions, nothing is lost or repeated over restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline import clear

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]
RowsOf = Callable[[DataFrame], list[Event]]


def follow(spark: SparkSession, url: str, place: Path, **options: str) -> StreamingQuery:
    """A query that copies all events into Parquet and stops."""
    read = spark.readStream.format("tallystick").option("url", url).options(**options).load()
    write = read.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    return write.option("path", f"{place}/copy").trigger(availableNow=True).start()


def test_a_query_goes_on_where_it_was(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, stored: Stored, rows_of: RowsOf
) -> None:
    """PIPE-01: AvailableNow with admission control copies every event once, also with restarts and later events."""
    make_log(files_url, events=25)
    first = follow(spark, files_url, tmp_path, maxEventsPerTrigger="10")
    first.awaitTermination()
    assert [progress["numInputRows"] for progress in first.recentProgress if progress["numInputRows"]] == [10, 10, 5]
    latest = first.recentProgress[-1]["sources"][0]["latestOffset"]
    assert (latest if isinstance(latest, dict) else json.loads(latest))["position"] == 25
    make_log(files_url, events=7, seed=2)
    follow(spark, files_url, tmp_path, maxEventsPerTrigger="10").awaitTermination()
    assert rows_of(spark.read.parquet(f"{tmp_path}/copy")) == stored(files_url)


def test_a_checkpoint_of_another_log_is_refused(spark: SparkSession, tmp_path: Path, make_log: MakeLog) -> None:
    """PIPE-01: offsets name the store, so that a query does not continue over another history."""
    one, other = f"files:{tmp_path}/one", f"files:{tmp_path}/other"
    make_log(one, events=3)
    make_log(other, events=9)
    follow(spark, one, tmp_path).awaitTermination()
    with pytest.raises(errors.WrongStore), clear():
        follow(spark, other, tmp_path).awaitTermination()
