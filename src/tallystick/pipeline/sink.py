"""Writing: `df.write.format("tallystick").mode("append")` and `writeStream` append events through the port, by id.

Needed are the columns `stream`, `type` and `payload` (JSON text), one that orders the rows (option `order`), and `id`;
or, with the option `idFrom=content`, an id made of stream, order, type and payload. So a task that Spark repeats writes
nothing twice. Rows of one stream have to be in one task, in order: `write_events` sees to that.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
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
from tallystick.pipeline.failures import clear, told
from tallystick.pipeline.question import absolute, require_shared

NAME = "tallystick"
APPEND_EVENTS = 500
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.2
REQUIRED = {"stream": "string", "type": "string", "payload": "string"}
OPTIONAL = {"id": "binary", "version": "int", "time": "bigint", "meta": "string"}
_UUID_VERSION, _UUID_VARIANT = 0x80, 0x80


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What rows become: where, ordered by which column, with which ids."""

    url: str
    order: str
    from_content: bool
    names: tuple[str, ...]
    wait_seconds: float = WAIT_SECONDS


@dataclass
class Wrote(WriterCommitMessage):
    """What one task did."""

    written: int
    stored: int


def recipe(options: Mapping[str, str], schema: StructType) -> Recipe:
    """What the options and the columns of a table say, checked."""
    given = {name.lower(): value for name, value in options.items()}
    url, order = given.get("url") or given.get("path") or "", given.get("order", "")
    from_content = given.get("idfrom") == "content"
    if not url:
        raise errors.InvalidValue(what="option url", value="nothing", must="the URL of a log, such as files:DIR")
    require_shared(url)
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, kind in REQUIRED.items():
        if kinds.get(name) != kind:
            raise errors.SchemaMisfit(column=name, reason=f"it is needed, as {kind}")
    for name, kind in OPTIONAL.items():
        if name in kinds and kinds[name] != kind:
            raise errors.SchemaMisfit(column=name, reason=f"it must be {kind}, not {kinds[name]}")
    if order not in kinds:
        raise errors.SchemaMisfit(column=order or "order", reason="the option `order` must name the column that orders")
    if not from_content and "id" not in kinds:
        raise errors.SchemaMisfit(column="id", reason="it is needed, or the option idFrom=content")
    return Recipe(url=url, order=order, from_content=from_content, names=tuple(kinds))


def append(made: Recipe, batches: Iterator[pa.RecordBatch]) -> Wrote:
    """Append the rows of a task. Writers of a log that has one at a time take turns."""
    with told(), _opened(made) as store:
        written = stored = 0
        for stream, events in _groups(made, batches):
            done = store.append(stream, events)
            stored += done.stored
            written += len(events) - done.stored
        return Wrote(written, stored)


def _opened(made: Recipe) -> Store:
    until = time.monotonic() + made.wait_seconds
    while True:
        try:
            return tallystick.open(made.url, create=False)
        except errors.StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(POLL_SECONDS)


def _groups(made: Recipe, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, list[NewEvent]]]:
    """Events of one stream that lie side by side, as one append; the order is checked on the way."""
    current, last = "", None
    events: list[NewEvent] = []
    for batch in batches:
        for row in batch.to_pylist():
            if row["stream"] != current or len(events) >= APPEND_EVENTS:
                if events:
                    yield current, events
                last = last if row["stream"] == current else None
                current, events = row["stream"], []
            place = row[made.order]
            if place is None or (last is not None and place < last):
                reason = f"{place!r} comes after {last!r} in {current!r}: rows of a stream must be sorted by it"
                raise errors.SchemaMisfit(column=made.order, reason=reason)
            last = place
            events.append(_event(made, row))
    if events:
        yield current, events


def _event(made: Recipe, row: dict[str, Any]) -> NewEvent:
    id_ = content_id(row["stream"], row[made.order], row["type"], row["payload"]) if made.from_content else row["id"]
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
    """An id that follows from the content: a UUID of version 8."""
    digest = bytearray(hashlib.sha256("\n".join((stream, str(place), type_, payload)).encode()).digest()[:16])
    digest[6] = _UUID_VERSION | (digest[6] & 0x0F)
    digest[8] = _UUID_VARIANT | (digest[8] & 0x3F)
    return bytes(digest)


class BatchWriter(DataSourceArrowWriter):
    """Appends a table."""

    def __init__(self, made: Recipe) -> None:
        self._recipe = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append the rows of one task; they are durable when this returns."""
        return append(self._recipe, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends what a streaming query gives; a repeated batch writes nothing, since its ids are there."""

    def __init__(self, made: Recipe) -> None:
        self._recipe = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append the rows of one task."""
        return append(self._recipe, iterator)


def write_events(table: DataFrame, url: str, *, order: str, from_content: bool = False) -> None:
    """Append a table to a log, the rows of each stream together and in order."""
    sorted_ = table.repartition(F.col("stream")).sortWithinPartitions("stream", order)
    if url.startswith("files:"):  # one writer at a time: one task
        sorted_ = table.coalesce(1).sortWithinPartitions("stream", order)
    options = {"url": absolute(url), "order": order} | ({"idFrom": "content"} if from_content else {})
    with clear():
        sorted_.write.format(NAME).mode("append").options(**options).save()
