"""`archive`: write the new events of a log into buckets of Parquet, and remove erased payloads from older buckets.

A run stores whole files, and then commits the next manifest. If it is killed, the manifest before stays in force with
all of its files, and the next run begins there. Of two runs at the same time the first to commit wins; the other
removes its files and begins again from the new manifest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tallystick.pipeline.archive import archive_files, bucket_reader, bucket_writer, manifest, rewrite
from tallystick.pipeline.archive.bucket_writer import StagedBucket
from tallystick.pipeline.archive.history import erased_positions, require_same_history
from tallystick.pipeline.archive.manifest import Bucket, DataFile, Manifest
from tallystick.pipeline.archive.rewrite import RewriteTask
from tallystick.pipeline.source.log_query import LogQuery, absolute_url, open_log, require_order
from tallystick.pipeline.source.partitions import Range, split
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.storage.port import Storage, storage_at
from tallystick.store import iterate
from tallystick.store.store import Store

BUCKET_EVENTS = 500_000


class ArchiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did: events and buckets added, payloads removed; and how far the archive goes."""

    events: int
    buckets: int
    erased: int
    through: int
    rows: int
    size: int


def archive(
    spark: SparkSession,
    url: str,
    directory: str | Path | Storage,
    *,
    until: int | None = None,
    bucket_events: int = BUCKET_EVENTS,
    grace_seconds: float = archive_files.GRACE_SECONDS,
    show: Show | None = None,
) -> ArchiveResult:
    """Archive all events up to `until` (None: the safe head of now) that are not archived yet."""
    storage = storage_at(directory)

    def attempt() -> ArchiveResult:
        return _archive(spark, url, storage, until, bucket_events, grace_seconds)

    with archive_files.locked(storage), clear(), watched(spark, "archive", show):
        return archive_files.retry_commit(storage, attempt)


def _archive(
    spark: SparkSession, url: str, storage: Storage, until: int | None, bucket_events: int, grace_seconds: float
) -> ArchiveResult:
    """One attempt from the newest manifest; `Taken` if another run commits first."""
    run = manifest.new_run()
    with open_log(url) as store:
        require_order(store, what="archive")
        before = manifest.load_or_begin(storage, store.log.store_id)
        require_same_history(storage, before, store, spark)
        head = store.log.head() if until is None else min(until, store.log.head())
        erased = erased_positions(store, spark, after=before.through, until=head)
    existing = archive_files.archive_file_names(storage)
    buckets = _new_buckets(spark, url, storage, run, before, head, bucket_events)
    kept, gone = _without_erased(spark, storage, run, before, erased)
    with open_log(url) as store:
        buckets = _note_lacking(store, buckets)
        after = _next(store, before, [*kept, *buckets], max(head, before.through))
    old = archive_files.superseded_entries(gone, grace_seconds=0)  # files with erased payloads get no grace period
    waiting = archive_files.without_grace(archive_files.existing_entries(existing, before.superseded), erased)
    after = msgspec.structs.replace(after, superseded=[*waiting, *old], run=run)
    after = archive_files.commit(storage, before, after, existing, is_new=bool(buckets or gone))
    return ArchiveResult(
        events=sum(bucket.rows for bucket in buckets),
        buckets=len(buckets),
        erased=len(erased) if gone else 0,
        through=after.through,
        rows=after.rows,
        size=after.size,
    )


# --- new buckets -----------------------------------------------------------------------------------------------------


def _new_buckets(
    spark: SparkSession, url: str, storage: Storage, run: str, before: Manifest, head: int, bucket_events: int
) -> list[Bucket]:
    """Write the events after the last bucket, one task and one file per bucket."""
    query = LogQuery(url=absolute_url(url), until=head, over_pruned=True)
    ranges = split(before.through, head, partition_events=bucket_events)
    done = bucket_writer.stage(spark, query, ranges, storage, run)
    return [_bucket(staged, part) for staged, part in zip(done, ranges, strict=True)]


def _bucket(staged: StagedBucket, part: Range) -> Bucket:
    """The entry of a new bucket; without files if its events were pruned, or its positions never had events."""
    return Bucket(
        first=part.after + 1,
        last=part.until,
        rows=staged.rows,
        events=staged.events,
        heads=staged.heads,
        blocks=staged.blocks,
    )


def _note_lacking(store: Store, buckets: list[Bucket]) -> list[Bucket]:
    """Mark buckets whose events were pruned. Called after they were read, so prunes in the meantime count too."""
    if not buckets or store.log.floor() < buckets[0].first:
        return buckets
    firsts, lasts = [bucket.first for bucket in buckets], [bucket.last for bucket in buckets]
    begun = [0] * (len(buckets) + 1)  # the number of cuts that begin at a bucket, minus those that ended before it
    for cut in iterate.cuts(store.log):
        begun[bisect_left(lasts, cut.first_position)] += 1
        begun[bisect_right(firsts, cut.last_position)] -= 1
    pairs = zip(buckets, accumulate(begun[:-1]), strict=True)
    return [msgspec.structs.replace(bucket, lacking=count > 0) for bucket, count in pairs]


# --- erasure ---------------------------------------------------------------------------------------------------------


def _without_erased(
    spark: SparkSession, storage: Storage, run: str, before: Manifest, erased: list[int]
) -> tuple[list[Bucket], list[DataFile]]:
    """The existing buckets, with new files where payloads were erased; and the files that they replace."""
    work = [
        RewriteTask(buckets=[bucket], erased=inside)
        for bucket in before.buckets
        if bucket.events and (inside := bucket_reader.within(erased, bucket.first, bucket.last))
    ]
    kept, gone = {bucket.first: bucket for bucket in before.buckets}, []
    for item, staged in zip(work, rewrite.write(spark, storage, run, work), strict=True):
        (bucket,) = item.buckets
        assert staged.events is not None
        assert bucket.events is not None
        if staged.events.sha256 != bucket.events.sha256:
            kept[bucket.first] = msgspec.structs.replace(bucket, events=staged.events)
            gone.append(bucket.events)
    return list(kept.values()), gone


def _next(store: Store, before: Manifest, buckets: list[Bucket], through: int) -> Manifest:
    """The manifest after this run, with the link of the log's event at its end."""
    event = iterate.event_at(store.log, through)
    if event is None:
        return msgspec.structs.replace(before, buckets=buckets, through=through)
    return msgspec.structs.replace(
        before, buckets=buckets, through=through, link_position=event.position, link=event.link.hex()
    )
