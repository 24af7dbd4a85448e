"""Running a function on each of many items: one Spark job, one task per item, and only the results come back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark.failures import mark_errors

_DDL = "number int, said binary"
_SCHEMA = pa.schema([("number", pa.int32()), ("said", pa.binary())])
_PROBE_ROWS = 1 << 16

Work = TypeVar("Work")
Said = TypeVar("Said")


def table(spark: SparkSession, items: Sequence[Work], rows_of: Callable[[Work], Batches], ddl: str) -> DataFrame:
    """The rows that a function returns for each item, as a table with one task per item."""
    packed = [pickle.dumps(item) for item in items]  # each task unpickles only its own item

    def run(batches: Batches) -> Batches:
        with mark_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from rows_of(pickle.loads(packed[number]))

    return spark.range(0, len(items), 1, max(len(items), 1)).mapInArrow(run, ddl)


def run_each(spark: SparkSession, items: Sequence[Work], do: Callable[[Work], Said], kind: type[Said]) -> list[Said]:
    """The results of a function for each item, in the order of the items. Results must be small."""
    if not items:
        return []

    def run(numbered: tuple[int, Work]) -> Batches:
        number, item = numbered
        said = msgspec.msgpack.encode(do(item))
        yield pa.RecordBatch.from_pydict({"number": [number], "said": [said]}, schema=_SCHEMA)

    rows = table(spark, list(enumerate(items)), run, _DDL).collect()
    found = {row["number"]: msgspec.msgpack.decode(bytes(row["said"]), type=kind) for row in rows}
    assert sorted(found) == list(range(len(items))), "every item has a result"
    return [found[number] for number in range(len(items))]


def cores(spark: SparkSession) -> int:
    """How many tasks run at a time. Spark Connect does not report it, so a small range is split to find out."""
    if isinstance(spark, SparkSession):
        return spark.sparkContext.defaultParallelism
    parts = spark.range(_PROBE_ROWS).select(F.spark_partition_id().alias("part")).distinct()
    return parts.count()
