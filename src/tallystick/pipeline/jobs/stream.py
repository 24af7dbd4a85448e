"""`stream`: keep a projection current with Structured Streaming; each event changes its row exactly once.

The rows say where to read from, a batch only how far. The tasks read the events between the rows and the end of the
batch, fold them onto the rows, and write the results to a batch that readers cannot see. When all tasks are done, the
driver makes the batch visible in one transaction, which checks the position of the rows and their number. So Spark's
checkpoint may be behind the rows or ahead of them, a repeated task or batch has no second effect, and the driver holds
no rows.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.sql.streaming.query import StreamingQuery

from tallystick import errors
from tallystick.event.catalog import Catalog
from tallystick.pipeline.fold.keys import with_key
from tallystick.pipeline.fold.states import in_order
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.data_source import read_range
from tallystick.pipeline.source.log_query import LogQuery, absolute_url, head_past
from tallystick.pipeline.source.partitions import split
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.spark.failures import mark_errors
from tallystick.pipeline.spark.user_modules import only_upcasters, ship_modules
from tallystick.pipeline.storage.port import directory_at, scheme_of
from tallystick.pipeline.stream import ends
from tallystick.pipeline.stream.batch_rows import COUNT_DDL, Batch, ProjectionJob, filler_task, refold
from tallystick.pipeline.stream.batch_size import end_of_batch
from tallystick.projections.places import PlaceKeeper
from tallystick.store import cursors
from tallystick.store.selection import Selection
from tallystick.store.store import Store
from tallystick.store.urls import redacted
from tallystick.store.views import ROWS, Place

BATCH_EVENTS = 200_000
BATCH_BYTES = 256 << 20
TRIGGER_SECONDS = 1
TRIES = 20
DROPPED_A_WRITE = 1000
NUMBER_BYTES = 16
_JARS = {"s3a": "hadoop-aws", "gs": "gcs-connector", "abfs": "hadoop-azure", "abfss": "hadoop-azure"}


class Bounds(NamedTuple):
    """The most positions, and the most bytes of events, by which one transaction advances the rows."""

    events: int
    bytes: int


def stream(
    spark: SparkSession,
    url: str,
    projection: Any,
    checkpoint: str,
    *,
    catalog: Catalog | None = None,
    follow: bool = False,
    batch_events: int = BATCH_EVENTS,
    batch_bytes: int = BATCH_BYTES,
) -> StreamingQuery:
    """Start a query that keeps a projection current; without `follow` it ends when it has caught up.

    One transaction advances the rows by at most `batch_events` positions and `batch_bytes` bytes of events.
    """
    if projection.kind != ROWS:
        raise errors.ProjectionInvalid(name=projection.name, reason="it owns SQL tables, which Spark cannot write")
    location = checkpoint_of(spark, checkpoint)
    job = ProjectionJob(absolute_url(url), projection, only_upcasters(catalog))
    ship_modules(projection, job.catalog)
    with job.open(for_rows=True) as store:
        after = PlaceKeeper(store, projection, store.log.views).live().position
    spark.dataSource.register(ends.EndsSource)
    options = {"projection": projection.name, "after": str(after), "maxEventsPerTrigger": str(batch_events)}
    batches = spark.readStream.format(ends.NAME).options(url=job.url, **options).load()
    bounds = Bounds(batch_events, batch_bytes)
    write = batches.writeStream.foreachBatch(lambda batch, number: apply_batch(batch, job, spark, bounds))
    write = write.option("checkpointLocation", location).queryName(f"tallystick-{projection.name}")
    if follow:
        return write.trigger(processingTime=f"{TRIGGER_SECONDS} seconds").start()
    return write.trigger(availableNow=True).start()


def apply_batch(batch: DataFrame, job: ProjectionJob, spark: SparkSession, bounds: Bounds) -> None:
    """Bring the rows to the end of a batch, from wherever they are, in steps within the bounds."""
    end = max(row["until"] for row in batch.collect())
    with mark_errors(), job.open(for_rows=True) as store:
        head_past(store, end)
        tries = 0
        while tries < TRIES:
            try:
                if _step(spark, job, store, end, bounds) >= end:
                    return
                tries = 0
            except errors.ViewMoved:  # another runner was faster: see what is left to do
                tries += 1
        name = job.projection.name
        raise errors.ViewMoved(projection=name, epoch=0, expected="rows that do not move", actual="moving all the time")


def _step(spark: SparkSession, job: ProjectionJob, store: Store, end: int, bounds: Bounds) -> int:
    """Fold dropped states again, and apply the next events up to `end`; the position of the rows after that."""
    views, projection = store.log.views, job.projection
    place = PlaceKeeper(store, projection, views).live()
    while keys := views.dropped(place.projection, place.epoch, limit=DROPPED_A_WRITE):
        _fold_again(spark, job, store, place, keys)
    if place.position >= end:
        return place.position
    query = LogQuery(url=job.url, selection=Selection(types=frozenset(projection.types)))
    until = min(end, place.position + bounds.events)
    until = end_of_batch(spark, query, place.position, until, bytes_max=bounds.bytes)
    batch = Batch(secrets.token_bytes(NUMBER_BYTES), place, until)
    keyed = with_key(_events(spark, query, place.position, until), projection, job.catalog)
    counts = in_order(keyed, projection).mapInArrow(filler_task(job, batch), COUNT_DDL)
    (found,) = counts.agg(F.sum("rows")).first() or (None,)
    moved = place.moved(until, cursors.last_event(store.log, until))
    views.write_batch(moved, batch.number, rows=found or 0, previous=place.position)
    return until


def _fold_again(spark: SparkSession, job: ProjectionJob, store: Store, place: Place, keys: list[str]) -> None:
    """Fold the rows of dropped states again, by tasks; the place does not move."""
    batch = Batch(secrets.token_bytes(NUMBER_BYTES), place, place.position)
    shares = [keys[number :: tasks.cores(spark)] for number in range(min(tasks.cores(spark), len(keys)))]
    counts = tasks.run_each(spark, shares, lambda share: refold(job, batch, share), int)
    store.log.views.write_batch(place, batch.number, rows=sum(counts), previous=place.position)


def _events(spark: SparkSession, query: LogQuery, after: int, until: int) -> DataFrame:
    """The events of a range, read by a plain job: to plan a table of the source takes longer than a small batch."""
    ranges = split(after, until, partition_events=None, cores=tasks.cores(spark))
    return tasks.table(spark, ranges, lambda part: read_range(query, columns.COLUMNS, part), columns.DDL)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoint_of(spark: SparkSession, given: str | Path) -> str:
    """The checkpoint as Spark takes it: an absolute path, or a URL of a file system that this session knows."""
    scheme = scheme_of(given)
    if scheme in (None, "file") or isinstance(given, Path):
        return str(directory_at(given, what="checkpoint"))
    if not _is_known(spark, scheme):
        need = f"this one needs the jar {_JARS[scheme]}" if scheme in _JARS else "Spark does not know this file system"
        must = f"a directory, by its path or as file:///PATH, or a URL that Spark can reach: {need}"
        raise errors.InvalidValue(what="checkpoint", value=redacted(given), must=must)
    return given


def _is_known(spark: SparkSession, scheme: str | None) -> bool:
    context: Any = spark.sparkContext
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except Py4JJavaError:
        return False
    return True
