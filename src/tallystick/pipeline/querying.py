"""`sql`: a query over the view `events`, with the fields of payloads reachable by name as `data.…`.

The type of `data` is found in the payloads themselves. It is for questions, not for proofs: numbers are what Spark
makes of them (1.10 is 1.1); the column `payload` has the bytes as stored.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline.whole import whole

VIEW = "events"
_TYPES = re.compile(r"`(?:[^`]|``)*`|\bOBJECT(?=<)|(?<=: )VOID\b|(?<=ARRAY<)VOID\b")  # names of fields are left alone
_AS_COLUMNS = {"OBJECT": "STRUCT", "VOID": "STRING"}
_NS_A_US = 1000


def view(spark: SparkSession, url: str, archive: str | Path | None = None, *, name: str = VIEW) -> DataFrame:
    """Make the view `events` of a log: its columns, `at` (the time as a timestamp), `org`, and `data`."""
    events = whole(url, archive, over_pruned=True, ordered=False, spark=spark).table(spark)
    table = with_data(events).withColumns(
        {
            "at": F.timestamp_micros(F.expr(f"time div {_NS_A_US}")),
            "org": F.get_json_object("meta", "$.org"),
        }
    )
    table.createOrReplaceTempView(name)
    return table


def with_data(events: DataFrame) -> DataFrame:
    """The events with a column `data` that has the fields of all payloads."""
    parsed = events.where(F.col("payload").isNotNull()).select(F.parse_json("payload").alias("json"))
    found = parsed.agg(F.schema_of_variant_agg("json").alias("found")).first()
    schema = as_ddl(found["found"]) if found is not None and found["found"] else ""
    if not schema.startswith("STRUCT<") or schema == "STRUCT<>":
        return events.withColumn("data", F.lit(None).cast("string"))
    return events.withColumn("data", F.from_json("payload", schema))


def as_ddl(found: str) -> str:
    """The type of a variant as the type of a column: what was always null is text."""
    return _TYPES.sub(lambda part: _AS_COLUMNS.get(part[0], part[0]), found)


def sql(spark: SparkSession, url: str, query: str, archive: str | Path | None = None) -> DataFrame:
    """The answer to a query over the view `events`."""
    view(spark, url, archive)
    return spark.sql(query)
