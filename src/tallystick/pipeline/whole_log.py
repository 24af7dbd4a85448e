"""The whole log as one table: the archive as far as it goes, and then the live log, with one upper bound.

Payloads that were erased since the last archive run are removed on the way. Events that the log has pruned come from
the archive. Events that neither has are refused with `HistoryPruned`, unless the caller asks for what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick import errors
from tallystick.pipeline.archive import bucket_reader, manifest
from tallystick.pipeline.archive.history import erased_positions, require_same_history, require_same_log
from tallystick.pipeline.archive.manifest import Manifest
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.pipeline.source.events import read_events
from tallystick.pipeline.source.log_query import has_order, head_past, open_log, require_order
from tallystick.pipeline.storage.port import Storage, storage_at


class WholeLog(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a table of the whole log: the archive up to `through`, and the live log from there to `until`."""

    url: str
    until: int
    through: int = 0
    storage: Storage | None = None
    manifest: Manifest | None = None
    erased: tuple[int, ...] = ()
    over_pruned: bool = False
    over_holes: bool = False
    unchecked: bool = False
    by_stream: bool = False

    def table(
        self,
        spark: SparkSession,
        *,
        columns: Sequence[str] = COLUMNS,
        types: Iterable[str] = (),
        after: int = 0,
        streams: Iterable[str] = (),
    ) -> DataFrame:
        """The events; only of `types`, if any are named.

        `after` and `streams` are hints of what need not be read: the table may have other events too.
        """
        chosen = tuple(types)
        if self.manifest is None:
            return self.tail(spark, columns=columns, types=chosen, after=after, streams=streams)
        old = self.archived(spark, columns=columns, types=chosen, after=after)
        if self.through >= self.until:
            return old
        return old.unionAll(self.tail(spark, columns=columns, types=chosen, after=after, streams=streams))

    def tail(
        self,
        spark: SparkSession,
        *,
        columns: Sequence[str] = COLUMNS,
        types: Iterable[str] = (),
        after: int = 0,
        streams: Iterable[str] = (),
    ) -> DataFrame:
        """The events that are not archived, from the live log."""
        return read_events(
            spark,
            self.url,
            after=max(after, self.through),
            until=self.until,
            types=types,
            streams=streams,
            columns=columns,
            over_pruned=self.over_pruned,
            over_holes=self.over_holes,
            unchecked=self.unchecked,
            final=True,
        )

    def archived(
        self, spark: SparkSession, *, columns: Sequence[str] = COLUMNS, types: Iterable[str] = (), after: int = 0
    ) -> DataFrame:
        """The archived events without payloads that were erased since; no buckets that end before `after`."""
        assert self.storage is not None
        needed = {"position", *columns, *(["type"] if types else [])}
        names = [name for name in COLUMNS if name in needed]
        assert self.manifest is not None
        buckets = [bucket for bucket in self.manifest.buckets if bucket.last > after and bucket.first <= self.until]
        listed = msgspec.structs.replace(self.manifest, buckets=buckets)
        old = bucket_reader.table(spark, self.storage, listed, names, erased=self.erased)
        if types:
            old = old.where(F.col("type").isin(list(types)))
        if self.until < self.through:
            old = old.where(F.col("position") <= self.until)
        return old.select(*columns)


def whole_log(
    url: str,
    archive: str | Path | Storage | None = None,
    *,
    until: int | None = None,
    over_pruned: bool = False,
    over_holes: bool = False,
    trusting: bool = True,
    seen: int = 0,
    ordered: bool = True,
    spark: SparkSession | None = None,
) -> WholeLog:
    """Fix the end of the whole log, and what its archive holds.

    `trusting`: damage in the archive or in an event is refused; otherwise the caller checks both. `seen`: another
    process has proven the head of the log up to there. `ordered`: the caller needs an order over all events. A log of
    runs has no such order: each of its runs ends where it ended at the time of planning. `spark`: its tasks search a
    long log for control facts.
    """
    with open_log(url) as store:
        if ordered or archive is not None:
            require_order(store, what="read the whole of")
        head = head_past(store, seen)
        end = head if until is None else min(until, head)
        if archive is None:
            _require_kept(store.log.floor(), over_pruned=over_pruned)
            return WholeLog(
                url=url,
                until=end,
                over_pruned=over_pruned,
                over_holes=over_holes,
                unchecked=not trusting,
                by_stream=not has_order(store),
            )
        storage = storage_at(archive)
        found = manifest.load(storage) if trusting else manifest.read(storage)
        if trusting:
            require_same_history(storage, found, store, spark)
        else:
            require_same_log(storage, found, store, over_holes=over_holes)
        if not over_pruned:
            _require_archived(found, store.log.floor())
        return WholeLog(
            url=url,
            until=end,
            through=found.through,
            storage=storage,
            manifest=found,
            erased=tuple(erased_positions(store, spark, after=found.through, until=head, over_holes=over_holes)),
            over_pruned=over_pruned,
            over_holes=over_holes,
            unchecked=not trusting,
        )


def _require_kept(floor: int, *, over_pruned: bool) -> None:
    if floor and not over_pruned:
        raise errors.HistoryPruned(what="positions", first=1, last=floor)


def _require_archived(found: Manifest, floor: int) -> None:
    """Refuse an archive that lacks events which the log has pruned."""
    lacking = [bucket for bucket in found.buckets if bucket.lacking]
    if lacking:
        raise errors.HistoryPruned(what="positions", first=lacking[0].first, last=lacking[-1].last)
    if floor > found.through:
        raise errors.HistoryPruned(what="positions", first=found.through + 1, last=floor)


def read_archive(
    spark: SparkSession,
    directory: str | Path | Storage,
    found: Manifest | None = None,
    *,
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """The events of an archive. Each file is checked before its rows are used."""
    storage = storage_at(directory)
    return bucket_reader.table(spark, storage, found or manifest.load(storage), columns)
