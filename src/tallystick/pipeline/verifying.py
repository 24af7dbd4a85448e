"""`verify`: every event of the whole log, in parallel, against its bytes, its neighbours and what is known of it.

What it cannot find without a witness outside of the store: the newest events of a log that were cut off together with
everything that knows of them; and, where there is no archive, two events that exchanged their positions.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.storagelevel import StorageLevel

from tallystick import errors
from tallystick.pipeline import digests, findings, shelving
from tallystick.pipeline.failures import clear
from tallystick.pipeline.manifest import BLOCK_POSITIONS, Manifest
from tallystick.pipeline.progress import Show, watched
from tallystick.pipeline.question import open_log
from tallystick.pipeline.whole import Whole, read_archive, whole
from tallystick.store.events import Problem

PROBLEMS_MAX = 10_000
NO_WITNESS = "that the newest live events were cut off cannot be found without a witness outside of the store"
_PAGE = 10_000

Head = tuple[str, int, bytes]


class Verified(msgspec.Struct, kw_only=True):
    """What was looked at and what was found. `ok` is the answer; `unsure` says what could not be looked at."""

    events: int = 0
    streams: int = 0
    erased: int = 0
    pruned: int = 0
    signed: int = 0
    until: int = 0
    archived: int = 0
    problems: list[Problem] = []
    truncated: bool = False
    unsure: list[str] = msgspec.field(default_factory=lambda: [NO_WITNESS])

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(spark: SparkSession, url: str, archive: str | Path | None = None, *, show: Show | None = None) -> Verified:
    """Verify a log and its archive, if it has one."""
    with clear(), watched(spark, "verify", show):
        heads = _stream_heads(url)
        source = whole(url, archive, over_pruned=True, over_holes=True)
        found = Verified(until=source.until, archived=source.through)
        _holes(url, found)
        if source.manifest is not None and source.place is not None:
            _files(spark, source.place, source.manifest, found)
        try:
            _rows(spark, source, heads, found)
        except errors.JobFailed as problem:  # a file that Spark cannot even read
            found.problems.append(Problem("archive", problem.message))
    return found


def _stream_heads(url: str) -> list[Head]:
    """What the store says of each stream. Asked before the table is fixed, so that the table has at least these."""
    rows: list[Head] = []
    with open_log(url) as store:
        after = ""
        while page := store.log.streams(after=after, limit=_PAGE):
            rows += [(info.stream, info.seq, info.link) for info in page]
            after = page[-1].stream
    return rows


def _holes(url: str, found: Verified) -> None:
    with open_log(url) as store:
        for hole in store.log.holes():
            reason = f"positions {hole.first} to {hole.last}: {hole.reason}"
            found.problems.append(Problem("hole", reason, hole.first))


def _files(spark: SparkSession, place: Path, manifest: Manifest, found: Verified) -> None:
    """The files of the archive against their hashes, each read by one task."""
    listed = [file for bucket in manifest.buckets for file in (bucket.events, bucket.heads) if file is not None]
    if not listed:
        return
    paths = [(str(place / file.name), file.sha256) for file in listed]
    slices = min(len(paths), 1000)
    wrong = spark.sparkContext.parallelize(paths, slices).filter(_is_other).map(lambda pair: pair[0]).collect()
    for path in sorted(wrong):
        found.problems.append(Problem("archive", f"{Path(path).name} is not the file that the manifest names"))


def _is_other(pair: tuple[str, str]) -> bool:
    path = Path(pair[0])
    return not path.exists() or shelving.hash_of(path) != pair[1]


def _rows(spark: SparkSession, source: Whole, heads: list[Head], found: Verified) -> None:
    tail = source.tail(spark).persist(StorageLevel.DISK_ONLY)  # read once from the log, asked several times
    events = tail if source.manifest is None else source.archived(spark).unionAll(tail)
    control = events.where(F.col("stream").startswith("tally.")).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found.streams = len(heads)
        pruned, erased = findings.pruned_claims(control), findings.erased_claims(control)
        _count(events, pruned, found)
        sealed, ends = findings.sealed_claims(control), _as_table(spark, heads)
        there = findings.at_places(events, erased, sealed, ends).persist(StorageLevel.MEMORY_AND_DISK)
        parts = [
            findings.wrong_payloads(events, erased),
            findings.wrong_places(findings.chained(events, pruned)),
            findings.missing_erased(there, erased, pruned),
            findings.wrong_seals(there, sealed),
            findings.wrong_heads(there, ends, pruned),
        ]
        _add(reduce(DataFrame.unionAll, parts), found)
        there.unpersist()
        if source.manifest is not None and source.place is not None:
            _blocks(spark, source.place, source.manifest, pruned, found)
    finally:
        control.unpersist()
        tail.unpersist()


def _as_table(spark: SparkSession, heads: list[Head]) -> DataFrame:
    return spark.createDataFrame(heads, "stream string, seq bigint, link binary")


def _count(events: DataFrame, pruned: DataFrame, found: Verified) -> None:
    counted = events.agg(
        F.count(F.lit(1)).alias("events"),
        F.count(F.when(F.isnull("payload"), 1)).alias("erased"),
        F.count("signature").alias("signed"),
    ).first()
    assert counted is not None
    found.events, found.erased, found.signed = counted
    gone = pruned.groupBy("stream").agg(F.max("count").alias("count")).agg(F.sum("count")).first()
    found.pruned = (gone[0] if gone is not None else 0) or 0
    if found.signed:
        found.unsure.append(f"the signatures of {found.signed} events were not checked")


def _add(wrong: DataFrame, found: Verified) -> None:
    rows = wrong.orderBy("position", "stream", "seq").limit(PROBLEMS_MAX + 1).collect()
    found.truncated = found.truncated or len(rows) > PROBLEMS_MAX
    for row in rows[:PROBLEMS_MAX]:
        found.problems.append(
            Problem(row["what"], row["reason"], row["position"] or 0, row["stream"] or "", row["seq"] or 0)
        )


def _blocks(spark: SparkSession, place: Path, manifest: Manifest, pruned: DataFrame, found: Verified) -> None:
    """The archive against its manifest: which rows stand at which positions; and, where not, what streams lack."""
    archived = read_archive(spark, place, manifest)
    listed = {Path(bucket.events.name).name: bucket for bucket in manifest.buckets if bucket.events is not None}
    expected = {
        (name, block.number): (block.rows, block.digest) for name, bucket in listed.items() for block in bucket.blocks
    }
    told = archived.select("position", "link", F.col("_metadata.file_name").alias("file"))
    actual = {
        (row["file"], row["block"]): (row["rows"], row["digest"]) for row in digests.blocks(told, "file").collect()
    }
    wrong = sorted(key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key))
    for key in wrong:
        first = max(listed[key[0]].first, key[1] * BLOCK_POSITIONS + 1)
        rows, there = expected.get(key, (0, ""))[0], actual.get(key, (0, ""))[0]
        reason = f"positions from {first} on do not hold what was archived: {there} rows instead of {rows}, or others"
        found.problems.append(Problem("block", reason, first))
    if wrong:
        names = [str(place / bucket.heads.name) for bucket in manifest.buckets if bucket.heads is not None]
        names = [name for name in names if Path(name).exists()]
        ends = spark.read.schema("stream string, seq bigint, link binary").parquet(*names)
        _add(findings.wrong_heads(findings.at_places(archived, ends), ends, pruned.limit(0)), found)
