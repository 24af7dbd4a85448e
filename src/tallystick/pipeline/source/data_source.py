"""The data source: `spark.read.format("tallystick")`, `readStream` and, through `sink.py`, writing.

It never implements `pushFilters`: PySpark 4.3 leaves a filter of one query on the table for the next ones, which is a
silently wrong answer. Bounds and selections are options instead, and columns are chosen by `.schema(...)`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tallystick import errors
from tallystick.event import chain
from tallystick.pipeline.source import adbc, catalog_table, columns, partitions
from tallystick.pipeline.source.log_query import LogQuery, head_past, named, open_asked, parse
from tallystick.pipeline.source.partitions import Range
from tallystick.pipeline.source.stream_ranges import StreamRange
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.store.stating import States, shown

NAME = "tallystick"
_TO_CHECK = ("position", "payload", "checksum")


class BatchReader(DataSourceReader):
    """Reads a log as it is when the table is planned."""

    def __init__(self, query: LogQuery, names: tuple[str, ...]) -> None:
        self._query = query
        self._names = names

    def partitions(self) -> list[Any]:
        """Ranges up to the safe head. Spark plans once a table, so that every query of it sees the same events."""
        with mark_errors(), open_asked(self._query) as store:
            return list(partitions.plan(store, self._query))

    def read(self, partition: Any) -> columns.Batches:
        """The events of one range as Arrow batches; runs in a worker."""
        return read_range(self._query, self._names, partition)


def read_range(query: LogQuery, names: tuple[str, ...], part: Range | StreamRange) -> columns.Batches:
    """The events of a range as Arrow batches of these columns."""
    with mark_errors(), open_asked(query) as store:
        if isinstance(part, Range) and isinstance(store.log, States) and adbc.is_installed():
            came = 0
            for batch in _from_server(store.log, query, names, part):
                came += batch.num_rows
                yield batch
            if came or query.over_pruned or store.log.floor() <= part.after:
                return  # else nothing came, maybe because it was pruned: the log itself says so
        make = columns.batch_maker(names)
        if isinstance(part, Range):
            head_past(store, part.until)
        for events in partitions.pages(store, query, part):
            yield make(events)


def _from_server(log: States, query: LogQuery, names: tuple[str, ...], part: Range) -> columns.Batches:
    checks = "payload" in names and not query.unchecked
    asked = (*names, *(name for name in _TO_CHECK if checks and name not in names))
    stated = log.stated(
        asked,
        selection=query.selection,
        after=part.after,
        until=part.until,
        over_pruned=query.over_pruned,
    )
    for batch in adbc.batches(query.url, stated, columns.arrow_schema(asked), shown=log.url):
        if checks:
            _require_fit(log, batch)
        yield batch.select(list(names)) if asked != names else batch


def _require_fit(log: States, batch: Any) -> None:
    """Refuse payloads without their checksum. The log itself is asked for the first, so that it names it."""
    for position, payload, checksum in columns.to_rows(batch, _TO_CHECK):
        if payload is not None and chain.checksum(payload) != checksum:
            log.read(after=position - 1, until=position, limit=1, over_pruned=True)


class TallystickSource(DataSource):
    """What Spark knows as the format `tallystick`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Every column of an event."""
        with mark_errors():
            return catalog_table.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of a log as it is."""
        with mark_errors():
            return BatchReader(self._asked(schema), columns.require_columns(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """A reader that follows a log."""
        from tallystick.pipeline.source.stream_reader import LogStreamReader

        with mark_errors():
            return LogStreamReader(self._asked(schema), columns.require_columns(schema))

    def _asked(self, schema: StructType) -> LogQuery:
        return parse(catalog_table.options(schema) | named(self.options))

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
        reason = "a log is only ever appended to: use mode('append')"
        raise errors.NotForSpark(what="overwrite", url=shown(str(options.get("url"))), reason=reason)


def register(spark: SparkSession) -> SparkSession:
    """Make the format known to a session. Spark also looks for it by itself, until some other such module is broken."""
    spark.dataSource.register(TallystickSource)
    return spark
