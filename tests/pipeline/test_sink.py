"""Writing a table into a log: by id, in order, and never twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

import tallystick
from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline import clear
from tallystick.pipeline.sink import by_stream, write_events

Stored = Callable[[str], list[Event]]


@pytest.fixture
def table(spark: SparkSession) -> DataFrame:
    """Forty rows of four streams, in no order."""
    rows = [(f"order/o{n % 4}", "order.paid", f'{{"cents":{n}}}', (n * 7) % 40) for n in range(40)]
    return spark.createDataFrame(rows, "stream string, type string, payload string, at int")


def test_a_table_is_appended_once(table: DataFrame, url: str, stored: Stored) -> None:
    """PIPE-01: rows become events in order; writing the same table again writes nothing."""
    tallystick.open(url).close()
    for _ in range(2):
        write_events(table, url, order="at", from_content=True)
    events = stored(url)
    assert len(events) == 40
    for stream in ("order/o0", "order/o3"):
        wanted = [row["payload"] for row in table.where(table.stream == stream).orderBy("at").collect()]
        assert [event.payload.decode() for event in events if event.stream == stream and event.payload] == wanted


@pytest.mark.parametrize(
    ("change", "options", "expected"),
    [
        (lambda table: table, {"order": "at"}, errors.SchemaMisfit),
        (lambda table: table.drop("payload"), {"order": "at", "idFrom": "content"}, errors.SchemaMisfit),
        (lambda table: table, {"idFrom": "content"}, errors.SchemaMisfit),
        (lambda table: table.orderBy("stream", "payload"), {"order": "at", "idFrom": "content"}, errors.SchemaMisfit),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    table: DataFrame,
    files_url: str,
    change: Callable[[DataFrame], DataFrame],
    options: dict[str, Any],
    expected: type[errors.TallyError],
) -> None:
    """PIPE-01: a missing id, payload or order, or rows out of order, give one clear error."""
    tallystick.open(files_url).close()
    with pytest.raises(expected), clear():
        written = by_stream(change(table), order="at", tasks=1)
        if "idFrom" in options and "order" in options:
            written = written.sortWithinPartitions("stream", "payload")
        written.write.format("tallystick").mode("append").options(url=files_url, **options).save()


@pytest.mark.security
@pytest.mark.parametrize("spread", ["by nobody", "and then in one task", "and then in others", "by another name"])
def test_a_table_whose_streams_may_be_in_several_tasks_is_refused(
    table: DataFrame, tmp_path: Path, spread: str
) -> None:
    """PIPE-01, SAFE-07: Spark's own writer does not move the rows of a stream to one task, so it is refused."""
    url = f"sqlite:{tmp_path}/log.db"
    tallystick.open(url).close()
    together = by_stream(table, order="at", tasks=3)
    changed = {
        "by nobody": table.repartition(3, "at").sortWithinPartitions("stream", "at"),
        "and then in one task": together.coalesce(1),
        "and then in others": together.repartition(3, "at").sortWithinPartitions("stream", "at"),
        "by another name": together.withColumn("stream", F.concat("stream", F.col("at").cast("string"))),
    }[spread]
    with pytest.raises(errors.SchemaMisfit, match="task"), clear():
        changed.write.format("tallystick").mode("append").options(url=url, order="at", idFrom="content").save()
    with tallystick.open(url, readonly=True) as store:
        ats = [json.loads(event.payload or b"")["cents"] * 7 % 40 for event in store.read_stream("order/o1")]
    assert ats == sorted(ats)


def test_a_writer_waits_as_long_as_it_is_told(table: DataFrame, files_url: str) -> None:
    """PIPE-01: a task waits up to `waitSeconds` for another writer of the log."""
    options = {"order": "at", "idFrom": "content", "waitSeconds": "0"}
    written = by_stream(table, order="at", tasks=1).write.format("tallystick").mode("append").options(url=files_url)
    with tallystick.open(files_url), pytest.raises(errors.StoreLocked), clear():
        written.options(**options).save()
    for wrong in ({"waitSeconds": "-1"}, {"idFrom": "order"}):
        with pytest.raises(errors.InvalidValue), clear():
            written.options(**options | wrong).save()


def test_a_stream_that_went_on_meanwhile_is_a_conflict(table: DataFrame, url: str, stored: Stored) -> None:
    """PIPE-01, SAFE-07: with `expectedSeq` no event gets another seq, and a repeated write does no harm."""
    tallystick.open(url).close()
    by = Window.partitionBy("stream").orderBy("at")
    numbered = table.withColumn("place", F.row_number().over(by))
    for _ in range(2):
        write_events(numbered, url, order="at", from_content=True, expected_seq="place")
    assert len(stored(url)) == 40
    with tallystick.open(url) as store:
        store.append("order/o2", tallystick.NewEvent("order.noted", {}))
    late = numbered.select("type", "payload", "at", "stream", (F.col("place") + 10).alias("place"))
    changed = late.withColumn("payload", F.lit('{"cents":99}'))
    with pytest.raises(errors.Conflict) as told:
        write_events(changed.where("stream = 'order/o2'"), url, order="at", from_content=True, expected_seq="place")
    assert told.value.values["actual"] == 11
    assert len([event for event in stored(url) if event.stream == "order/o2"]) == 11


@pytest.mark.parametrize("wrong", ["place * 2", "cast(null as int)", "place - 1", "cast(place as string)"])
def test_seqs_that_do_not_follow_one_another_are_refused(table: DataFrame, files_url: str, wrong: str) -> None:
    """PIPE-01: a gap, a null, a zero or a text is refused."""
    tallystick.open(files_url).close()
    numbered = table.withColumn("place", F.row_number().over(Window.partitionBy("stream").orderBy("at")))
    with pytest.raises(errors.SchemaMisfit, match="place"):
        write_events(
            numbered.withColumn("place", F.expr(wrong)), files_url, order="at", from_content=True, expected_seq="place"
        )
