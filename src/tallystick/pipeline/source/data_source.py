"""The data source: `spark.read.format("tallystick")`, `readStream` and, through `sink.py`, writing.

It does not implement `pushFilters`: PySpark 4.3 keeps a filter of one query on the table for later queries, which then
silently give wrong answers. Bounds and selections are options instead, and `.schema(...)` chooses the columns.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tallystick import errors
from tallystick.event import chain
from tallystick.pipeline.source import adbc, catalog_table, columns, partitions
from tallystick.pipeline.source.log_query import LogQuery, head_past, lower_case_names, open_for, parse
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.source.stream_ranges import StreamRange
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.store import iterate
from tallystick.store.server_sql import SqlServerLog
from tallystick.store.store import Store
from tallystick.store.urls import redacted

NAME = "tallystick"
_TO_CHECK = ("position", "payload", "checksum")


class BatchReader(DataSourceReader):
    """Reads a log up to its head at the time of planning."""

    def __init__(self, query: LogQuery, names: tuple[str, ...]) -> None:
        self._query = query
        self._names = names

    def partitions(self) -> list[Any]:
        """Ranges up to the safe head. Spark plans a table once, so every query of the table sees the same events."""
        with mark_errors(), open_for(self._query) as store:
            return list(partitions.plan(store, self._query))

    def read(self, partition: Any) -> columns.Batches:
        """The events of one range as Arrow batches; runs in a worker."""
        return read_range(self._query, self._names, partition)


def read_range(query: LogQuery, names: tuple[str, ...], part: Range | StreamRange) -> columns.Batches:
    """The events of a range as Arrow batches of these columns."""
    with mark_errors(), open_for(query) as store:
        if isinstance(part, Range) and isinstance(store.log, SqlServerLog) and adbc.is_installed():
            came = 0
            for batch in _from_server(store, store.log, query, names, part):
                came += batch.num_rows
                yield batch
            if came or query.over_pruned or store.log.floor() <= part.after:
                return  # if nothing came, the range may have been pruned: the log itself reports that below
        make = columns.batch_maker(names)
        if isinstance(part, Range):
            head_past(store, part.until)
        for events in partitions.pages(store, query, part):
            yield make(events)


def _from_server(
    store: Store, log: SqlServerLog, query: LogQuery, names: tuple[str, ...], part: Range
) -> columns.Batches:
    checks = "payload" in names and not query.unchecked
    asked = (*names, *(name for name in _TO_CHECK if checks and name not in names))
    question = log.session_query(
        asked,
        selection=query.selection,
        after=part.after,
        until=part.until,
        over_pruned=query.over_pruned,
    )
    for batch in adbc.batches(query.url, question, columns.arrow_schema(asked), shown=log.url):
        if checks:
            _require_fit(store, batch)
        yield batch.select(list(names)) if asked != names else batch


def _require_fit(store: Store, batch: Any) -> None:
    """Refuse payloads without their checksum: the log reads the first such event itself, and raises the error."""
    for position, payload, checksum in columns.to_rows(batch, _TO_CHECK):
        if payload is not None and chain.checksum(payload) != checksum:
            iterate.event_at(store.log, position)


class TallystickSource(DataSource):
    """The format `tallystick` of Spark."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Every column of an event."""
        with mark_errors():
            return catalog_table.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for one table."""
        with mark_errors():
            return BatchReader(self._asked(schema), columns.require_columns(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """A reader that follows a log."""
        from tallystick.pipeline.source.stream_reader import LogStreamReader

        with mark_errors():
            return LogStreamReader(self._asked(schema), columns.require_columns(schema))

    def _asked(self, schema: StructType) -> LogQuery:
        return parse(catalog_table.options(schema) | lower_case_names(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A writer that appends a table."""
        from tallystick.pipeline.sink import BatchWriter, write_options

        with mark_errors():
            _require_append(self.options, overwrite)
            return BatchWriter(write_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """A writer that appends the batches of a streaming query."""
        from tallystick.pipeline.sink import StreamWriter, write_options

        with mark_errors():
            _require_append(self.options, overwrite)
            return StreamWriter(write_options(self.options, schema))


def _require_append(options: Any, overwrite: bool) -> None:
    if overwrite:
        reason = "a log cannot be overwritten: use mode('append')"
        raise errors.NotForSpark(what="overwrite", url=redacted(str(options.get("url"))), reason=reason)


def register(spark: SparkSession) -> SparkSession:
    """Make the format known to a session. Spark also finds it automatically, unless another such module is broken."""
    spark.dataSource.register(TallystickSource)
    return spark
