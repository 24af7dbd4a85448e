"""`sql`: a query over the view `events`, with the fields of payloads available by name as `data.NAME`.

The type of `data` comes from the payloads themselves. Spark converts the numbers in it (1.10 becomes 1.1); the column
`payload` has the bytes as stored.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline.source import query_plan
from tallystick.pipeline.source.columns import COLUMNS, SPARK_TYPES
from tallystick.pipeline.source.query_plan import QueryNeeds
from tallystick.pipeline.whole_log import WholeLog, whole_log

VIEW = "events"
_DATA = "data"
_TYPES = re.compile(
    r"`(?:[^`]|``)*`|\bOBJECT(?=<)|(?<=: )VOID\b|(?<=ARRAY<)VOID\b"
)  # quoted names of fields are not changed
_AS_COLUMNS = {"OBJECT": "STRUCT", "VOID": "STRING"}
_NS_A_US = 1000


def view(spark: SparkSession, url: str, archive: str | Path | None = None, *, name: str = VIEW) -> DataFrame:
    """Create the view `events` of a log: its columns, `at` (the time as a timestamp), `org`, and `data`."""
    source = _source(spark, url, archive)
    return _create_view(_with_extra_columns(source.table(spark), _data_type(spark, source)), name)


def sql(spark: SparkSession, url: str, query: str, archive: str | Path | None = None) -> DataFrame:
    """The result of a query over the view `events`. Only events that the query may need are read from the log."""
    source, type_ = _source(spark, url, archive), None
    needs = _needs(spark, query, type_)
    if needs is None or _DATA in needs.columns:
        type_ = _data_type(spark, source)
        needs = _needs(spark, query, type_)
    events = source.table(spark) if needs is None else _needed_events(spark, source, needs)
    _create_view(_with_extra_columns(events, type_), VIEW)
    return spark.sql(query)


def _source(spark: SparkSession, url: str, archive: str | Path | None) -> WholeLog:
    return whole_log(url, archive, over_pruned=True, ordered=False, spark=spark)


def _create_view(table: DataFrame, name: str) -> DataFrame:
    table.createOrReplaceTempView(name)
    return table


def _needs(spark: SparkSession, query: str, type_: str | None) -> QueryNeeds | None:
    """What a query needs of the log; None if that is unknown: then the query runs over all events, and may be refused.

    Without a type for `data`, the table has a text column of that name, which shows whether the query uses it.
    """
    if not isinstance(spark, SparkSession):  # Spark Connect does not show its plans
        return None
    empty = query_plan.empty_events(spark, *([f"{_DATA} string"] if type_ is None else []))
    _create_view(_with_extra_columns(empty, type_), VIEW)
    try:
        return query_plan.query_needs(spark.sql(query))
    except AnalysisException:
        return None


def _needed_events(spark: SparkSession, source: WholeLog, needs: QueryNeeds) -> DataFrame:
    """The events that a query may need; columns that it does not need are null."""
    if needs.until is not None and not source.by_stream:
        source = msgspec.structs.replace(source, until=min(source.until, needs.until))
    chosen = [name for name in COLUMNS if name in needs.columns or name == "position"]
    after = 0 if source.by_stream else needs.after
    found = source.table(
        spark, columns=chosen, types=needs.types or (), streams=needs.streams or (), after=min(after, source.until)
    )
    others = {name: F.lit(None).cast(kind) for name, kind in SPARK_TYPES.items() if name not in chosen}
    return found.withColumns(others).select(*COLUMNS) if others else found


def _with_extra_columns(events: DataFrame, type_: str | None) -> DataFrame:
    """The events with `at`, `org` and `data`."""
    if type_ is not None:
        events = events.withColumn(_DATA, F.from_json("payload", type_) if type_ else F.lit(None).cast("string"))
    elif _DATA not in events.columns:
        events = events.withColumn(_DATA, F.lit(None).cast("string"))
    at, org = F.timestamp_micros(F.expr(f"time div {_NS_A_US}")), F.get_json_object("meta", "$.org")
    return events.withColumns({"at": at, "org": org}).select(*COLUMNS, _DATA, "at", "org")


def _data_type(spark: SparkSession, source: WholeLog) -> str:
    """A type with the fields of all payloads; empty if payloads have no fields."""
    there = source.table(spark, columns=("payload",)).where(F.col("payload").isNotNull())
    found = there.select(F.parse_json("payload").alias("json")).agg(F.schema_of_variant_agg("json").alias("found"))
    row = found.first()
    type_ = as_ddl(row["found"]) if row is not None and row["found"] else ""
    return type_ if type_.startswith("STRUCT<") and type_ != "STRUCT<>" else ""


def as_ddl(found: str) -> str:
    """The type of a variant as the type of a column: a field that is always null becomes text."""
    return _TYPES.sub(lambda part: _AS_COLUMNS.get(part[0], part[0]), found)
