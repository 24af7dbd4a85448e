"""`rebuild`: fold the whole log on Spark into the rows of a projection, and pass them to the live runner.

The new epoch is staged before the log is read: an erasure in the meantime drops states in that epoch, and then the
rows are refused. The switch is that of the in-process rebuild, so readers never see older rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tallystick import errors
from tallystick.pipeline.fold import summaries
from tallystick.pipeline.fold.states import fold
from tallystick.pipeline.source.log_query import address_of
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.spark.user_modules import only_upcasters, ship_modules
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.projections.live import Live
from tallystick.projections.rebuild import discard, stage, switch
from tallystick.projections.summary.sql import why_not_sql
from tallystick.store import iterate
from tallystick.store.store import Store
from tallystick.store.views import ROWS, Place, ViewRow

ROWS_A_WRITE = 5000


def rebuild(
    spark: SparkSession,
    store: Store,
    projection: Any,
    archive: str | Path | None = None,
    *,
    show: Show | None = None,
) -> Place:
    """Fold the whole log into a new epoch, switch to it, and remove the old one; the place of the new rows."""
    if projection.kind != ROWS:
        reason = "it owns SQL tables, which Spark cannot write"
        raise errors.ProjectionInvalid(name=projection.name, reason=reason)
    views = store.log.views
    staged = stage(store, projection, views)
    try:
        with clear(), watched(spark, f"rebuild {projection.name}", show):
            _fill(spark, store, projection, staged, archive)
    except BaseException:
        discard(views, staged)
        raise
    return switch(Live(store, projection, epoch=staged.epoch), views, lambda done: None)


def _fill(spark: SparkSession, store: Store, projection: Any, staged: Place, archive: str | Path | None) -> None:
    """Write the rows that Spark folds, and after the last row the position up to which they go."""
    views, position = store.log.views, staged.position
    source = whole_log(address_of(store), archive, spark=spark)
    with cached(fold_rows(spark, store, projection, source)) as found:
        for rows in chunks(found):
            views.write(staged, rows, previous=position)
    last = iterate.event_at(store.log, source.until)
    views.write(staged.moved(source.until, last), [], previous=position)


def fold_rows(spark: SparkSession, store: Store, projection: Any, source: WholeLog) -> DataFrame:
    """The rows of a projection over the whole log."""
    catalog = only_upcasters(store.catalog)  # type: ignore[arg-type]
    projection.prepare(store, until=source.until)
    ship_modules(projection, catalog)
    if why_not_sql(projection, catalog) is None:
        return summaries.fold(spark, source, projection)
    return fold(spark, source, projection, catalog)


@contextmanager
def cached(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, computed on all cores: iterating over a table computes one partition after the other."""
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()


def chunks(rows: DataFrame) -> Iterator[list[ViewRow]]:
    """The rows in lists for one transaction each; the driver holds one partition at a time."""
    iterator = rows.toLocalIterator(prefetchPartitions=True)
    found = (ViewRow(key, bytes(state), bytes(mark)) for key, state, mark in iterator)
    while chunk := list(islice(found, ROWS_A_WRITE)):
        yield chunk
