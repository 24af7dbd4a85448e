"""Writing a table into a log: by id, in order, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline import clear
from tallystick.pipeline.sink import write_events

Stored = Callable[[str], list[Event]]


@pytest.fixture
def table(spark: SparkSession) -> DataFrame:
    """Forty rows of four streams, in no order."""
    rows = [(f"order/o{n % 4}", "order.paid", f'{{"cents":{n}}}', (n * 7) % 40) for n in range(40)]
    return spark.createDataFrame(rows, "stream string, type string, payload string, at int")


def test_a_table_is_appended_once(table: DataFrame, url: str, stored: Stored) -> None:
    """PIPE-01: rows become events in their order; the same table again writes nothing."""
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
    """PIPE-01: no id, no payload, no order, or rows out of order: one clear error."""
    tallystick.open(files_url).close()
    with pytest.raises(expected), clear():
        change(table).coalesce(1).write.format("tallystick").mode("append").options(url=files_url, **options).save()
