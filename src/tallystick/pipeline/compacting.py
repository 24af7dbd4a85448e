"""`compact`: small buckets of an archive that lie side by side become one, and what stands there twice stands once.

Rows of one id that are the same in every column are one event; rows of one id that differ are a finding, and the
buckets they are in stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.pipeline import digests, manifest, shelving
from tallystick.pipeline.archive import BUCKET_EVENTS
from tallystick.pipeline.columns import COLUMNS, DDL, SPARK_TYPES
from tallystick.pipeline.failures import clear
from tallystick.pipeline.location import directory_of
from tallystick.pipeline.manifest import Bucket, Manifest
from tallystick.pipeline.progress import Show, watched
from tallystick.pipeline.whole import read_archive
from tallystick.store.events import Problem

PROBLEMS_MAX = 1000


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `problems` are ids that stand for different events."""

    buckets_before: int
    buckets_after: int
    duplicates_dropped: int
    size_before: int
    size_after: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether no id stands for two events."""
        return not self.problems


def compact(
    spark: SparkSession,
    directory: str | Path,
    *,
    bucket_events: int = BUCKET_EVENTS,
    grace_seconds: float = shelving.GRACE_SECONDS,
    show: Show | None = None,
) -> Compacted:
    """Merge neighbours as long as the outcome has at most `bucket_events` positions."""
    place = directory_of(directory)
    before = manifest.load(place)
    with shelving.locked(place), clear(), watched(spark, "compact", show):
        before = manifest.load(place)
        twice = repeated(read_archive(spark, place, before)).persist()
        problems = _problems(twice)
        again, wrong = _places(twice.where("same")), _places(twice.where("not same"))
        buckets, gone = _merged(spark, place, before, bucket_events, again, wrong)
        twice.unpersist()
        old = shelving.superseded(gone, grace_seconds=grace_seconds)
        waiting = shelving.still_there(place, before.superseded)
        after = msgspec.structs.replace(before, buckets=buckets, superseded=[*waiting, *old])
        if gone:
            after = manifest.save(place, after)
        shelving.sweep(place, after, grace_seconds=grace_seconds)
    return Compacted(
        buckets_before=len(before.buckets),
        buckets_after=len(after.buckets),
        duplicates_dropped=before.rows - after.rows,
        size_before=before.size,
        size_after=after.size,
        problems=problems,
    )


def repeated(events: DataFrame) -> DataFrame:
    """(id, position, places, …, same) of every id that stands there more than once; `same` if its rows do not differ.

    `places` are all of its positions.
    """
    content = F.sha2(F.concat_ws("\n", *(F.coalesce(_as_text(name), F.lit("∅")) for name in COLUMNS)), 256)
    found = events.select("id", "position", "stream", "seq", content.alias("content"))
    grouped = found.groupBy("id").agg(
        F.count(F.lit(1)).alias("rows"),
        F.countDistinct("content").alias("contents"),
        F.first("stream").alias("stream"),
        F.min("seq").alias("seq"),
        F.min("position").alias("position"),
        F.collect_set("position").alias("places"),
    )
    same = (F.col("contents") == 1).alias("same")
    return grouped.where("rows > 1").select("id", "position", "places", "stream", "seq", same)


def _as_text(name: str) -> Column:
    return F.hex(name) if SPARK_TYPES[name] == "binary" else F.col(name).cast("string")


def _places(twice: DataFrame) -> set[int]:
    return {position for row in twice.select("places").collect() for position in row["places"]}


def _problems(twice: DataFrame) -> list[Problem]:
    rows = twice.where("not same").orderBy("position").limit(PROBLEMS_MAX).collect()
    reason = "the id {} stands for different events"
    return [
        Problem("duplicate", reason.format(bytes(row["id"]).hex()), row["position"], row["stream"], row["seq"])
        for row in rows
    ]


def _merged(
    spark: SparkSession, place: Path, before: Manifest, bucket_events: int, again: set[int], wrong: set[int]
) -> tuple[list[Bucket], list[manifest.DataFile]]:
    """The buckets that the archive will have, and the files that go for it."""
    found: list[Bucket] = []
    gone: list[manifest.DataFile] = []
    for group in _groups(before.buckets, bucket_events, wrong):
        is_wrong = any(_holds(bucket, wrong) for bucket in group)
        has_copies = any(_holds(bucket, again) for bucket in group)
        if is_wrong or (len(group) == 1 and not has_copies):
            found.append(group[0])
            continue
        found.append(_one(spark, place, group))
        gone += [file for bucket in group for file in (bucket.events, bucket.heads) if file is not None]
    listed = {file.name for bucket in found for file in (bucket.events, bucket.heads) if file is not None}
    return found, [file for file in gone if file.name not in listed]


def _holds(bucket: Bucket, positions: set[int]) -> bool:
    return any(bucket.first <= position <= bucket.last for position in positions)


def _groups(buckets: list[Bucket], bucket_events: int, wrong: set[int]) -> list[list[Bucket]]:
    """Neighbours that become one bucket; one that holds something wrong stays alone."""
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


def _one(spark: SparkSession, place: Path, group: list[Bucket]) -> Bucket:
    """Several buckets as one, sorted by position, each row once."""
    first, last = group[0].first, group[-1].last
    staging = place / shelving.STAGING / f"merged-{first}"
    files = [str(place / bucket.events.name) for bucket in group if bucket.events is not None]
    lacking = any(bucket.lacking for bucket in group)
    if not files:
        return Bucket(first=first, last=last, rows=0, events=None, heads=None, blocks=[], lacking=lacking)
    rows = spark.read.schema(DDL).parquet(*files).dropDuplicates(["position", "id", "stream", "seq"])
    rows.coalesce(1).sortWithinPartitions("position").write.parquet(str(staging / shelving.EVENTS))
    (staged,) = shelving.staged_files(staging / shelving.EVENTS)
    written = spark.read.schema(DDL).parquet(str(staged))
    ends = digests.heads(written).coalesce(1).sortWithinPartitions("stream")
    ends.write.parquet(str(staging / shelving.HEADS))
    blocks = [digests.as_block(row) for row in digests.blocks(written).orderBy("block").collect()]
    (staged_heads,) = shelving.staged_files(staging / shelving.HEADS)
    heads = shelving.shelve(place, shelving.HEADS, staged_heads, first=first, last=last)
    events = shelving.shelve(place, shelving.EVENTS, staged, first=first, last=last)
    return Bucket(first=first, last=last, rows=events.rows, events=events, heads=heads, blocks=blocks, lacking=lacking)
