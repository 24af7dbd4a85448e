"""`compact`: merge small neighbouring buckets of an archive. No row is added, changed or left out.

A file that is not as it was archived is refused. An id that two events share is reported, and the buckets with these
events stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.sql.types import Row

from tallystick.pipeline.archive import archive_files, manifest, rewrite
from tallystick.pipeline.archive.bucket_writer import StagedBucket
from tallystick.pipeline.archive.manifest import Bucket, Manifest
from tallystick.pipeline.archive.rewrite import RewriteTask
from tallystick.pipeline.jobs.archive import BUCKET_EVENTS
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.storage.port import Storage, storage_at
from tallystick.pipeline.whole_log import read_archive
from tallystick.store.events import Problem

PROBLEMS_MAX = 1000


class CompactResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `problems` are ids that different events share."""

    buckets_before: int
    buckets_after: int
    size_before: int
    size_after: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether no two events share an id."""
        return not self.problems


def compact(
    spark: SparkSession,
    directory: str | Path | Storage,
    *,
    bucket_events: int = BUCKET_EVENTS,
    grace_seconds: float = archive_files.GRACE_SECONDS,
    show: Show | None = None,
) -> CompactResult:
    """Merge neighbouring buckets as long as the result has at most `bucket_events` positions."""
    storage = storage_at(directory)
    manifest.load(storage)

    def attempt() -> CompactResult:
        return _compact(spark, storage, bucket_events, grace_seconds)

    with archive_files.locked(storage), clear(), watched(spark, "compact", show):
        return archive_files.retry_commit(storage, attempt)


def _compact(spark: SparkSession, storage: Storage, bucket_events: int, grace_seconds: float) -> CompactResult:
    """One attempt from the newest manifest; `Taken` if another run commits first."""
    before, run = manifest.load(storage), manifest.new_run()
    existing = archive_files.archive_file_names(storage)
    twice = _repeated(spark, storage, before, bucket_events)
    wrong = {position for row in twice for position in row["positions"]}
    is_hopeless = len(twice) > PROBLEMS_MAX
    buckets, gone = (before.buckets, []) if is_hopeless else _merged(spark, storage, run, before, bucket_events, wrong)
    old = archive_files.superseded_entries(gone, grace_seconds=grace_seconds)
    waiting = archive_files.existing_entries(existing, before.superseded)
    after = msgspec.structs.replace(before, buckets=buckets, superseded=[*waiting, *old], run=run)
    after = archive_files.commit(storage, before, after, existing, is_new=buckets != before.buckets)
    return CompactResult(
        buckets_before=len(before.buckets),
        buckets_after=len(after.buckets),
        size_before=before.size,
        size_after=after.size,
        problems=_problems(twice),
    )


def _repeated(spark: SparkSession, storage: Storage, before: Manifest, bucket_events: int) -> list[Row]:
    """The first ids that events share, in the buckets that may be merged; other buckets are not read."""
    groups = _groups(before.buckets, bucket_events, set())
    found = [bucket for group in groups if len(group) > 1 for bucket in group]
    if not found:
        return []
    listed = msgspec.structs.replace(before, buckets=found)
    events = read_archive(spark, storage, listed, columns=("id", "position", "stream", "seq"))
    return repeated_ids(events).orderBy("position").limit(PROBLEMS_MAX + 1).collect()


def repeated_ids(events: DataFrame) -> DataFrame:
    """(id, position, positions, stream, seq) of every id that events share: the first event, and all positions."""
    grouped = (
        events.select("id", "position", "stream", "seq")
        .groupBy("id")
        .agg(
            F.min_by("stream", "position").alias("stream"),
            F.min_by("seq", "position").alias("seq"),
            F.min("position").alias("position"),
            F.collect_list("position").alias("positions"),
        )
    )
    return grouped.where(F.size("positions") > 1).select("id", "position", "positions", "stream", "seq")


def _problems(twice: list[Row]) -> list[Problem]:
    reason = "different events have the id {}"
    return [
        Problem("duplicate", reason.format(bytes(row["id"]).hex()), row["position"], row["stream"], row["seq"])
        for row in twice[:PROBLEMS_MAX]
    ]


def _merged(
    spark: SparkSession, storage: Storage, run: str, before: Manifest, bucket_events: int, wrong: set[int]
) -> tuple[list[Bucket], list[manifest.DataFile]]:
    """The buckets after the merge, and the files that they replace."""
    groups = _groups(before.buckets, bucket_events, wrong)
    merged = {group[0].first: group for group in groups if len(group) > 1}
    work = [RewriteTask(buckets=group) for group in merged.values() if any(bucket.rows for bucket in group)]
    done = dict(zip([item.buckets[0].first for item in work], rewrite.write(spark, storage, run, work), strict=True))
    found = [_one(group, done.get(group[0].first)) if group[0].first in merged else group[0] for group in groups]
    gone = [file for group in merged.values() for bucket in group for file in (bucket.events, bucket.heads) if file]
    listed = {file.name for bucket in found for file in (bucket.events, bucket.heads) if file is not None}
    return found, [file for file in gone if file.name not in listed]


def _holds(bucket: Bucket, positions: set[int]) -> bool:
    return any(bucket.first <= position <= bucket.last for position in positions)


def _groups(buckets: list[Bucket], bucket_events: int, wrong: set[int]) -> list[list[Bucket]]:
    """Groups of neighbours, each of which becomes one bucket; a bucket with a problem stays as it is."""
    groups: list[list[Bucket]] = []
    stays = False
    for bucket in buckets:
        is_wrong = _holds(bucket, wrong)
        fits = groups and bucket.last - groups[-1][0].first + 1 <= bucket_events
        if fits and not is_wrong and not stays:
            groups[-1].append(bucket)
        else:
            groups.append([bucket])
        stays = is_wrong
    return groups


def _one(group: list[Bucket], staged: StagedBucket | None) -> Bucket:
    """Several buckets as one, with the same rows, order and blocks: the log may have a witness over the blocks."""
    first, last = group[0].first, group[-1].last
    one = Bucket(
        first=first,
        last=last,
        rows=0,
        events=None,
        heads=None,
        blocks=[],
        lacking=any(bucket.lacking for bucket in group),
    )
    if staged is None or staged.events is None or staged.heads is None:
        return one
    return msgspec.structs.replace(
        one, rows=staged.rows, events=staged.events, heads=staged.heads, blocks=staged.blocks
    )
