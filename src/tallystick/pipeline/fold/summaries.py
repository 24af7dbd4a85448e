"""Summaries on Spark: payloads become columns, Spark SQL aggregates them, and Python makes one state per row.

pieces → columns (by the task that reads them) → group by key and window → states
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.event import canonical
from tallystick.pipeline.fold import pieces
from tallystick.pipeline.fold.payload_columns import NEEDED, PayloadExtractor
from tallystick.pipeline.fold.states import ROWS_DDL, ROWS_SCHEMA
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.pipeline.whole_log import WholeLog
from tallystick.projections.summary.compiled import Accounts
from tallystick.projections.summary.measures import untagged
from tallystick.projections.summary.model import Summary
from tallystick.projections.summary.sql import accounts, summary_query
from tallystick.store import summary_sql

TABLE_BYTES = 4 << 20
_COLLECTING = summary_sql.AggregateSyntax(
    latest="lpad(CAST(position AS STRING), 20, '0') || {0}",
    distinct="collect_set({0})",
    ranked="collect_list({0}) FILTER (WHERE {top})",
)


def fold(spark: SparkSession, source: WholeLog, summary: Summary) -> DataFrame:
    """(key, state, mark): the rows of a summary over the whole log."""
    found, reader = pieces.cut_pieces(source, tuple(summary.types), cores=tasks.cores(spark))
    reader = msgspec.structs.replace(reader, names=NEEDED)

    def extract(piece: pieces.LogPiece) -> Batches:
        return map(PayloadExtractor(summary).batch, reader.tables(piece, TABLE_BYTES))

    return states(aggregates(tasks.table(spark, found, extract, ddl(summary)), summary), summary)


def ddl(summary: Summary) -> str:
    """The columns of the extractor, as DDL."""
    return ", ".join(f"{name} {kind}" for name, kind in PayloadExtractor(summary).fields)


def aggregates(columns: DataFrame, summary: Summary) -> DataFrame:
    """The aggregates of each key and window, by Spark SQL."""
    question = summary_query(summary)
    ranked = columns.selectExpr("*", *summary_sql.ranked(question))
    return ranked.groupBy("key", "win").agg(*map(F.expr, summary_sql.collected(_COLLECTING, question)))


def states(groups: DataFrame, summary: Summary) -> DataFrame:
    """One row for each key. The windows of a key go to one task."""

    def run(batches: Batches) -> Batches:
        with mark_errors():
            found = (list(batches),) if summary_query(summary).window_ns else ([batch] for batch in batches)
            for some in found:
                yield _rows(accounts_of(summary, _listed(some)), summary)

    together = groups.repartition(F.col("key")) if summary_query(summary).window_ns else groups
    return together.mapInArrow(run, ROWS_DDL)


def accounts_of(summary: Summary, rows: Iterator[Sequence[Any]]) -> Accounts:
    """The accounts from the rows of aggregates."""
    headed = ((key, window, None, None, None, *columns) for key, window, *columns in rows)
    return accounts(summary, headed, decode=untagged, key_of=str)


def _listed(batches: list[pa.RecordBatch]) -> Iterator[Sequence[Any]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _rows(found: Accounts, summary: Summary) -> pa.RecordBatch:
    states = [canonical.encode_state(summary.to_state(its)) for its in found.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(found, pa.string()), pa.array(states, pa.binary()), pa.array([b""] * len(states), pa.binary())],
        schema=ROWS_SCHEMA,
    )
