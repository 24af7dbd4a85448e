"""The events of a live log as a DataFrame, with bounds and selection as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from tallystick.pipeline.source.columns import COLUMNS, SPARK_TYPES
from tallystick.pipeline.source.data_source import NAME
from tallystick.pipeline.source.log_query import absolute_url
from tallystick.pipeline.spark import tasks


def read_events(
    spark: SparkSession,
    url: str,
    *,
    after: int = 0,
    until: int | None = None,
    types: Iterable[str] = (),
    streams: Iterable[str] = (),
    columns: Sequence[str] = COLUMNS,
    over_pruned: bool = False,
    over_holes: bool = False,
    final: bool = False,
    unchecked: bool = False,
    partition_events: int | None = None,
) -> DataFrame:
    """The events after `after` up to `until` (None: the safe head when the table is first used).

    `over_pruned` and `over_holes` give what is left of a log that was pruned or damaged; without them it is refused.
    A DataFrame is planned once: call again for newer events. `final` is for an `until` that was a safe head of this
    log, `unchecked` for verification, which reports every damaged event.
    """
    options = {"url": absolute_url(url), "after": str(after), "type": ",".join(types), "stream": ",".join(streams)}
    if until is not None:
        options["until"] = str(until)
    if over_pruned:
        options["pruned"] = "skip"
    if over_holes:
        options["holes"] = "skip"
    if final:
        options["final"] = "true"
    if unchecked:
        options["unchecked"] = "true"
    options["parallelism"] = str(tasks.cores(spark))
    if partition_events is not None:
        options["partitionEvents"] = str(partition_events)
    schema = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns)
    return spark.read.format(NAME).schema(schema).options(**options).load()
