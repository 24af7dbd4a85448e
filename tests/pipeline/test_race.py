"""The source, the archive and a stream while writers commit out of order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick.event.model import Event
from tallystick.pipeline import read_events
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.whole_log import read_archive, whole_log
from tallystick.testing import builders
from tests.postgres import race

Positions = list[int]
RowsOf = Callable[[DataFrame], list[Event]]


class SparkReader:
    """Follows the log by one table after the other; after new events, an archive run and a stream follow too.

    It continues after the last position of a table: a table past the safe head would lose events.
    """

    def __init__(self, spark: SparkSession, url: str, org: str | None, place: Path) -> None:
        self._spark = spark
        self._options = {"url": url} if org is None else {"url": url, "tenant": org}
        self._place = place
        self._with_jobs = org is None

    def page(self, after: int) -> tuple[Positions, int]:
        """The positions after `after`."""
        read = self._spark.read.format("tallystick").schema("position bigint")
        found = _positions(read.options(**self._options, after=str(after), partitionEvents="300").load())
        if found and self._with_jobs:
            self.follow()
        return found, found[-1] if found else after

    def follow(self) -> None:
        """Archive all events, and let the streaming query process them."""
        archive(self._spark, self._options["url"], self._place / "archive", bucket_events=500)
        read = self._spark.readStream.format("tallystick").options(**self._options, maxEventsPerTrigger="1000").load()
        write = read.writeStream.format("parquet").option("checkpointLocation", f"{self._place}/checkpoint")
        write.option("path", f"{self._place}/copy").trigger(availableNow=True).start().awaitTermination()

    def close(self) -> None:
        """Nothing is open."""


def _positions(table: DataFrame) -> Positions:
    return sorted(row[0] for row in table.select("position").collect())


def _race(spark: SparkSession, url: str, place: Path, events: int) -> None:
    finish = race.run(url, race.Race(events=events), reader=lambda url, org: SparkReader(spark, url, org, place))
    SparkReader(spark, url, None, place).follow()
    assert finish.missed == 0
    assert finish.is_exact
    assert _positions(read_archive(spark, place / "archive")) == finish.stored
    assert _positions(spark.read.parquet(f"{place}/copy")) == finish.stored


def test_nothing_is_missed_beside_the_race(spark: SparkSession, postgres_url: str, tmp_path: Path) -> None:
    """PIPE-01, PIPE-02, PIPE-07: 8 writers, rollbacks, late commits: tables, archive and stream have what is stored."""
    _race(spark, postgres_url, tmp_path, events=1_000)


def test_a_late_commit_is_waited_for(spark: SparkSession, postgres_url: str, tmp_path: Path, rows_of: RowsOf) -> None:
    """PIPE-01, PIPE-02, CP-04: events after one that may still be committed are in no table, archive or stream."""
    with tallystick.open(postgres_url) as store, psycopg.connect(postgres_url) as late:
        store.append("order/first", builders.named(1))
        _append(late, "order/late", 2)
        store.append("order/third", builders.named(3))
        assert _followed(spark, postgres_url, tmp_path, rows_of) == [["order/first"]] * 3
        late.commit()
        assert _followed(spark, postgres_url, tmp_path, rows_of) == [["order/first", "order/late", "order/third"]] * 3


def test_a_head_that_is_proven_again_is_waited_for(
    spark: SparkSession, postgres_url: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """PIPE-01, PIPE-02, CP-04: after a gap, a new reader cannot prove at once what others saw during an append."""
    tallystick.open(postgres_url).close()
    with psycopg.connect(postgres_url) as first, psycopg.connect(postgres_url) as other:
        _append(first, "order/first", 1)
        first.commit()
        _append(first, "order/never", 2)
        first.rollback()
        _append(first, "order/third", 3)
        first.commit()
        assert _followed(spark, postgres_url, tmp_path, rows_of) == [["order/first", "order/third"]] * 3
        fixed = whole_log(postgres_url)
        _append(other, "order/late", 4)
        assert [event.stream for event in rows_of(fixed.table(spark))] == ["order/first", "order/third"]
        timer = threading.Timer(1.0, other.commit)
        timer.start()
        archive(spark, postgres_url, tmp_path / "archive")
        timer.join()
        _append(other, "order/later", 5)
        timer = threading.Timer(1.0, other.commit)
        timer.start()
        _stream(spark, postgres_url, tmp_path)
        timer.join()


def _append(connection: psycopg.Connection[Any], stream: str, number: int) -> None:
    """Append without the store, which would publish the head; the transaction stays open."""
    connection.execute("SET LOCAL ROLE tally_app")
    connection.execute(
        "SELECT tally.append_event(%s, -1, 't', 1, %s::uuid, 0, '{}', '{}', NULL, 0, false, NULL, NULL)",
        (stream, builders.event_id(number).hex()),
    )


def _stream(spark: SparkSession, url: str, place: Path) -> None:
    read = spark.readStream.format("tallystick").option("url", url).load()
    write = read.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    write.option("path", f"{place}/copy").trigger(availableNow=True).start().awaitTermination()


def _followed(spark: SparkSession, url: str, place: Path, rows_of: RowsOf) -> list[list[str]]:
    """The streams of a table, of the archive and of a copy by a streaming query, in order of position."""
    archive(spark, url, place / "archive")
    _stream(spark, url, place)
    tables = (read_events(spark, url), read_archive(spark, place / "archive"), spark.read.parquet(f"{place}/copy"))
    return [[event.stream for event in rows_of(table)] for table in tables]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_missed_beside_a_long_race(spark: SparkSession, postgres_url: str, tmp_path: Path) -> None:
    """PIPE-01, PIPE-02, PIPE-07: the same with ten thousand events."""
    _race(spark, postgres_url, tmp_path, events=10_000)
