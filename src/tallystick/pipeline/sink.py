"""Writing: `df.write.format("tallystick").mode("append")` and `writeStream` append events through the port, by id.

A table needs the columns `stream`, `type` and `payload` (JSON text), a column that orders the rows (option `order`),
and `id`; with the option `idFrom=content` the id is made from stream, order, type and payload. So a task that Spark
repeats writes nothing twice. The option `expectedSeq` names a column with the seq that each row must get. If another
writer appended to the stream in the meantime, the write is a `Conflict`, and no event gets another seq.

Tasks know nothing of each other, so all rows of a stream must be in one task: `by_stream` arranges that, and records
the task in a column `task`. A table without that column is refused when it is planned. A row in a task that is not its
own, or out of order, is refused when it is written.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.event import canonical
from tallystick.pipeline.source.log_query import absolute_url, lower_case_names, number_in, require_shared, url_in
from tallystick.pipeline.spark.failures import clear, mark_errors
from tallystick.store.expectation import ANY

NAME = "tallystick"
APPEND_EVENTS = 500
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.2
TASK = "task"
TASK_TYPE = "struct<number:int,of:int>"
TASKS = 8
REQUIRED = {"stream": "string", "type": "string", "payload": "string"}
OPTIONAL = {"id": "binary", "version": "int", "time": "bigint", "meta": "string"}
_UUID_VERSION, _UUID_VARIANT = 0x80, 0x80


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How rows become events: in which log, ordered by which column, with which ids."""

    url: str
    order: str
    from_content: bool
    names: tuple[str, ...]
    expected: str | None = None
    wait_seconds: float = WAIT_SECONDS


@dataclass
class TaskWritten(WriterCommitMessage):
    """The number of events that one task wrote, and that were stored before."""

    written: int
    stored: int


def write_options(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    """The options of a write and the columns of its table, checked."""
    given = lower_case_names(options)
    url, order = url_in(given), given.get("order", "")
    require_shared(url)
    from_content = "idfrom" in given
    if given.get("idfrom", "content") != "content":
        raise errors.InvalidValue(what="option idFrom", value=given["idfrom"], must="content")
    waits = number_in(given, "waitseconds")
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, kind in REQUIRED.items():
        if kinds.get(name) != kind:
            raise errors.SchemaMisfit(column=name, reason=f"it is required, as {kind}")
    for name, kind in OPTIONAL.items():
        if name in kinds and kinds[name] != kind:
            raise errors.SchemaMisfit(column=name, reason=f"it must be {kind}, not {kinds[name]}")
    if order not in kinds:
        raise errors.SchemaMisfit(
            column=order or "order", reason="the option `order` must name the column that orders the rows"
        )
    if not from_content and "id" not in kinds:
        raise errors.SchemaMisfit(column="id", reason="it is required, or the option idFrom=content")
    expected = given.get("expectedseq")
    if expected is not None and kinds.get(expected) not in ("int", "bigint"):
        reason = "the option `expectedSeq` must name a column with whole numbers"
        raise errors.SchemaMisfit(column=expected, reason=reason)
    if kinds.get(TASK) != TASK_TYPE:
        reason = (
            "the rows of a stream must come to one task: write sink.by_stream(table, order=...), or use write_events"
        )
        raise errors.SchemaMisfit(column=TASK, reason=reason)
    wait_seconds = WAIT_SECONDS if waits is None else float(waits)
    return WriteOptions(
        url=url,
        order=order,
        from_content=from_content,
        names=tuple(kinds),
        expected=expected,
        wait_seconds=wait_seconds,
    )


def append(options: WriteOptions, batches: Iterator[pa.RecordBatch], *, task: int) -> TaskWritten:
    """Append the rows of a task. If the log takes one writer at a time, tasks wait for each other."""
    with mark_errors(), _open_when_free(options) as store:
        written = stored = 0
        for stream, expected, events in _groups(options, batches, task):
            done = store.append(stream, events, expected=expected)
            stored += done.stored
            written += len(events) - done.stored
        return TaskWritten(written, stored)


def _open_when_free(options: WriteOptions) -> Store:
    until = time.monotonic() + options.wait_seconds
    while True:
        try:
            return tallystick.open(options.url, create=False)
        except errors.StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(POLL_SECONDS)


def _groups(
    options: WriteOptions, batches: Iterator[pa.RecordBatch], task: int
) -> Iterator[tuple[str, int, list[NewEvent]]]:
    """The appends: stream, expected seq, and events. The task and the order of the rows are checked on the way."""
    current, last = "", None
    expected: int = ANY
    seq: int = ANY
    events: list[NewEvent] = []
    for batch in batches:
        for row in batch.to_pylist():
            if row["stream"] != current or len(events) >= APPEND_EVENTS:
                if events:
                    yield current, expected, events
                if row["stream"] != current:
                    _require_task(row, current, task)
                    last, seq = None, ANY
                current, events = row["stream"], []
                expected = _seq(options, row, seq) - 1 if options.expected else ANY
            seq = _seq(options, row, seq)
            place = row[options.order]
            if place is None or (last is not None and place < last):
                reason = f"{place!r} comes after {last!r} in {current!r}: rows of a stream must be sorted by it"
                raise errors.SchemaMisfit(column=options.order, reason=reason)
            last = place
            events.append(_event(options, row))
    if events:
        yield current, expected, events


def _seq(options: WriteOptions, row: dict[str, Any], before: int) -> int:
    """The seq that a row must get; refused if it does not follow the seq of the row before it in its stream."""
    if options.expected is None:
        return ANY
    seq = row[options.expected]
    if seq is None or seq < 1 or (before != ANY and seq != before + 1):
        after = "" if before == ANY else f" after {before}"
        reason = f"it is {seq!r}{after} in {row['stream']!r}: the seqs of a stream must follow one another"
        raise errors.SchemaMisfit(column=options.expected, reason=reason)
    return int(seq)


def _require_task(row: dict[str, Any], before: str, task: int) -> None:
    """Refuse a stream whose rows may be in other tasks, or whose rows in this task are not together."""
    stream, noted = row["stream"], row[TASK]
    if stream is None:
        raise errors.SchemaMisfit(column="stream", reason="it is null")
    if noted is None or noted["number"] != task or noted["number"] != zlib.crc32(stream.encode()) % noted["of"]:
        reason = f"rows of {stream!r} may be in several tasks: change nothing between sink.by_stream and the writing"
        raise errors.SchemaMisfit(column=TASK, reason=reason)
    if stream < before:
        reason = f"{stream!r} comes after {before!r}: the rows of a task must be sorted by stream"
        raise errors.SchemaMisfit(column="stream", reason=reason)


def _event(options: WriteOptions, row: dict[str, Any]) -> NewEvent:
    id_ = (
        content_id(row["stream"], row[options.order], row["type"], row["payload"])
        if options.from_content
        else row["id"]
    )
    if id_ is None:
        raise errors.SchemaMisfit(column="id", reason="it is null")
    meta = row.get("meta")
    return NewEvent(
        row["type"],
        row["payload"].encode(),
        meta=None if meta is None else canonical.parse(meta, what="meta"),
        version=row.get("version"),
        id=bytes(id_),
        time=row.get("time"),
    )


def content_id(stream: str, place: object, type_: str, payload: str) -> bytes:
    """An id that is made from the content: a UUID of version 8."""
    digest = bytearray(hashlib.sha256("\n".join((stream, str(place), type_, payload)).encode()).digest()[:16])
    digest[6] = _UUID_VERSION | (digest[6] & 0x0F)
    digest[8] = _UUID_VARIANT | (digest[8] & 0x3F)
    return bytes(digest)


class BatchWriter(DataSourceArrowWriter):
    """Appends a table."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append the rows of one task. They are durable when this returns."""
        return append(self._options, iterator, task=_task())


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a streaming query. A repeated batch writes nothing, since its ids are stored already.

    Spark cannot sort a streaming table, so each task sorts its rows of a batch.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append the rows of one task."""
        batches = list(iterator)
        if batches:
            by = [("stream", "ascending"), (self._options.order, "ascending")]
            batches = pa.Table.from_batches(batches).sort_by(by).to_batches()
        return append(self._options, iter(batches), task=_task())


def _task() -> int:
    context = TaskContext.get()
    assert context is not None, "a writer runs in a task"
    return context.partitionId()


def by_stream(table: DataFrame, *, order: str, tasks: int = TASKS) -> DataFrame:
    """The rows of each stream in one task, in order, as the writer requires."""
    number = F.pmod(F.crc32(F.col("stream").cast("binary")), F.lit(tasks)).cast("int")
    noted = table.withColumn(TASK, F.struct(number.alias("number"), F.lit(tasks).alias("of")))
    together = noted.repartitionById(tasks, F.col(f"{TASK}.number"))
    return together if table.isStreaming else together.sortWithinPartitions("stream", order)


def write_events(
    table: DataFrame, url: str, *, order: str, from_content: bool = False, expected_seq: str | None = None
) -> None:
    """Append a table to a log; the rows of each stream are appended together and in order.

    `expected_seq` names a column with the seq that each row must get. If another writer appended to the stream in the
    meantime, the write is a `Conflict`.
    """
    sorted_ = by_stream(table, order=order, tasks=1 if url.startswith("files:") else TASKS)  # one writer at a time
    options = {"url": absolute_url(url), "order": order} | ({"idFrom": "content"} if from_content else {})
    options |= {} if expected_seq is None else {"expectedSeq": expected_seq}
    with clear():
        sorted_.write.format(NAME).mode("append").options(**options).save()
