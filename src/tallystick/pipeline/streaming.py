"""`stream`: a projection kept current by Structured Streaming, each event exactly once into its row.

The rows say where to read on, and a batch only how far: the events between the rows and the end of the batch are read,
folded by the workers onto the rows as they are, and written in one transaction that compares where the rows were. So
Spark's checkpoint may be behind the rows or ahead of them, and a batch that Spark repeats has no second effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.sql.streaming.query import StreamingQuery

import tallystick
from tallystick import errors
from tallystick.event.catalog import Catalog
from tallystick.pipeline import columns, ends, tasks
from tallystick.pipeline.carrying import carry, only_upcasters
from tallystick.pipeline.checkpoints import checkpoint_of
from tallystick.pipeline.failures import told
from tallystick.pipeline.folding import ROWS_DDL, ROWS_SCHEMA
from tallystick.pipeline.keys import key_name, with_key
from tallystick.pipeline.partitions import split
from tallystick.pipeline.question import Question, absolute, head_past
from tallystick.pipeline.source import read_range
from tallystick.projections.folding import Folder
from tallystick.projections.places import Keeper
from tallystick.store import cursors
from tallystick.store.selection import Selection
from tallystick.store.store import Store
from tallystick.store.views import ROWS, Place, ViewRow

BATCH_EVENTS = 200_000
TRIGGER_SECONDS = 1
TRIES = 20
DROPPED_A_WRITE = 1000

Batches = Iterator[pa.RecordBatch]


class Kept(msgspec.Struct, frozen=True):
    """A projection over a log, as workers and driver need it."""

    url: str
    projection: Any
    catalog: Catalog

    def open(self, *, for_rows: bool = False) -> Store:
        """The store; `for_rows`: to write rows. A file log's rows lie beside it, and its one writer is not us."""
        readonly = not for_rows or self.url.startswith("files:")
        return tallystick.open(self.url, readonly=readonly, create=False, catalog=self.catalog)


def stream(
    spark: SparkSession,
    url: str,
    projection: Any,
    checkpoint: str,
    *,
    catalog: Catalog | None = None,
    follow: bool = False,
    batch_events: int = BATCH_EVENTS,
) -> StreamingQuery:
    """Start a query that keeps a projection current; without `follow` it ends when it has caught up."""
    if projection.kind != ROWS:
        raise errors.ProjectionInvalid(name=projection.name, reason="it owns SQL tables, which Spark cannot write")
    place = checkpoint_of(spark, checkpoint)
    kept = Kept(absolute(url), projection, only_upcasters(catalog))
    carry(projection, kept.catalog)
    with kept.open(for_rows=True) as store:
        after = Keeper(store, projection, store.log.views).live().position
    spark.dataSource.register(ends.EndsSource)
    options = {"projection": projection.name, "after": str(after), "maxEventsPerTrigger": str(batch_events)}
    batches = spark.readStream.format(ends.NAME).options(url=kept.url, **options).load()
    write = batches.writeStream.foreachBatch(lambda batch, number: apply_batch(batch, kept, spark, batch_events))
    write = write.option("checkpointLocation", place).queryName(f"tallystick-{projection.name}")
    if follow:
        return write.trigger(processingTime=f"{TRIGGER_SECONDS} seconds").start()
    return write.trigger(availableNow=True).start()


def apply_batch(batch: DataFrame, kept: Kept, spark: SparkSession, batch_events: int) -> None:
    """Bring the rows up to the end of a batch, from wherever they are, in steps of so many positions."""
    end = max(row["until"] for row in batch.collect())
    with told(), kept.open(for_rows=True) as store:
        head_past(store, end)
        tries = 0
        while tries < TRIES:
            try:
                if _step(spark, kept, store, end, batch_events) >= end:
                    return
                tries = 0
            except errors.ViewMoved:  # another runner was faster: look again at what is left to do
                tries += 1
        name = kept.projection.name
        raise errors.ViewMoved(projection=name, epoch=0, expected="rows that rest", actual="moving all the time")


def _step(spark: SparkSession, kept: Kept, store: Store, end: int, batch_events: int) -> int:
    """Fold dropped states again, and apply the next events up to `end`; says how far the rows are then."""
    views, projection = store.log.views, kept.projection
    place = Keeper(store, projection, views).live()
    while keys := views.dropped(place.projection, place.epoch, limit=DROPPED_A_WRITE):
        views.write(place, Folder(store, projection).again(keys, until=place.position), previous=place.position)
    if place.position >= end:
        return place.position
    until = min(end, place.position + batch_events)
    keyed = with_key(_events(spark, kept, place.position, until), projection, kept.catalog)
    grouped = keyed.repartition(F.col(key_name(projection))).sortWithinPartitions("position")
    rows = grouped.mapInArrow(_onto_rows(kept, place, until), ROWS_DDL).collect()
    found = [ViewRow(row[0], None if row[1] is None else bytes(row[1]), bytes(row[2])) for row in rows]
    views.write(place.moved(until, cursors.last_event(store.log, until)), found, previous=place.position)
    return until


def _events(spark: SparkSession, kept: Kept, after: int, until: int) -> DataFrame:
    """The events between, read by a plain job: to plan a table of the source takes longer than a small batch."""
    question = Question(url=kept.url, selection=Selection(types=frozenset(kept.projection.types)))
    ranges = split(after, until, partition_events=None, cores=tasks.cores(spark))

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_range(question, columns.COLUMNS, ranges[number])

    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(read, columns.DDL)


def _onto_rows(kept: Kept, place: Place, until: int) -> Callable[[Batches], Batches]:
    """Folds the events of a partition onto the rows of their keys."""

    def load(store: Store, keys: Any) -> list[ViewRow]:
        return store.log.views.rows(place.projection, epoch=place.epoch, keys=keys).rows

    def run(batches: Batches) -> Batches:
        with told(), kept.open() as store:
            events = [event for batch in batches for event in kept.catalog.upcast(list(columns.to_events(batch)))]
            if not events:
                return
            rows = Folder(store, kept.projection).rows(events, load=lambda keys: load(store, keys), until=until)
            fields = zip(*((row.key, row.state, row.mark) for row in rows), strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(fields, ROWS_SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=ROWS_SCHEMA)

    return run
