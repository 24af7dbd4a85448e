"""`verify`: every event of the whole log, in parallel, against its bytes, its neighbours and what is known of it.

What it cannot find without a witness outside of the store: the newest events of a log that were cut off together with
everything that knows of them; and, where there is no archive, two events that exchanged their positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
    community: int = 0
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
        known = _known(url)
        source = whole(url, archive, over_pruned=True, over_holes=True, unchecked=True)
        found = Verified(until=source.until, archived=source.through)
        _holes(url, found)
        if source.manifest is not None and source.place is not None:
            _files(spark, source.place, source.manifest, found)
        try:
            _rows(spark, source, known, found)
        except errors.JobFailed as problem:  # a file that Spark cannot even read
            found.problems.append(Problem("archive", problem.message))
    return found


class Known(msgspec.Struct, frozen=True):
    """What the store says of each stream, and the head before it was asked: every event up to there is told of."""

    until: int
    heads: list[Head]


def _known(url: str) -> Known:
    """Ask the store for its streams. Done before the table is fixed, so that the table has at least these."""
    rows: list[Head] = []
    with open_log(url) as store:
        until, after = store.log.head(), ""
        while page := store.log.streams(after=after, limit=_PAGE):
            rows += [(info.stream, info.seq, info.link) for info in page]
            after = page[-1].stream
    return Known(until, rows)


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


@contextmanager
def _kept(table: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> Iterator[DataFrame]:
    """A table that is asked several times and computed once."""
    kept = table.persist(level)
    try:
        yield kept
    finally:
        kept.unpersist()


def _rows(spark: SparkSession, source: Whole, known: Known, found: Verified) -> None:
    """Everything that the rows themselves tell. Each part reads the columns that it needs, once."""
    ends = _as_table(spark, known.heads)
    with _kept(source.tail(spark), StorageLevel.DISK_ONLY) as tail:
        events = tail if source.manifest is None else source.archived(spark).unionAll(tail)
        _count(events, found)
        with (
            _kept(events.where(F.col("stream").startswith("tally."))) as control,
            _kept(findings.unfit(events)) as suspects,
        ):
            trusted = _trusted(control, suspects, ends, known.until, found)
            pruned, erased = findings.pruned_claims(trusted), findings.erased_claims(trusted)
            sealed = findings.sealed_claims(trusted)
            found.erased = suspects.where("gone").count()
            found.pruned = _pruned(pruned)
            _chain(events, pruned, found)
            with _kept(findings.at_places(events, erased, sealed, ends)) as there:
                parts = [
                    findings.unexplained(suspects, erased),
                    findings.unkept_erasures(there, suspects, erased, pruned),
                    findings.wrong_seals(there, sealed),
                    findings.wrong_heads(there, ends, pruned),
                ]
                _add(reduce(DataFrame.unionAll, parts), found)
            if source.manifest is not None and source.place is not None:
                _blocks(spark, source.place, source.manifest, pruned, found)


def _as_table(spark: SparkSession, heads: list[Head]) -> DataFrame:
    return spark.createDataFrame(heads, "stream string, seq bigint, link binary")


def _count(events: DataFrame, found: Verified) -> None:
    counted = events.agg(F.count(F.lit(1)), F.count("signature"), F.count(F.when(findings.is_community(), 1))).first()
    assert counted is not None
    found.events, found.signed, found.community = counted


def _pruned(claims: DataFrame) -> int:
    """How many events are gone, as the last fact about each stream says."""
    gone = claims.groupBy("stream").agg(F.max("count").alias("count")).agg(F.sum("count")).first()
    return (gone[0] if gone is not None else 0) or 0


def _trusted(control: DataFrame, suspects: DataFrame, ends: DataFrame, until: int, found: Verified) -> DataFrame:
    """The control facts that may excuse something: linked, unchanged, and known to the log. The others are told of."""
    unknown = findings.unknown_facts(control, ends, until=until)
    _add(unknown, found)
    broken = findings.wrong_places(findings.chained(control, findings.pruned_claims(control.limit(0))))
    bad = [
        item.select("stream", "seq").where(F.col("stream").startswith("tally.")) for item in (unknown, broken, suspects)
    ]
    wrong = reduce(DataFrame.unionAll, bad).distinct().collect()
    if not wrong:
        return control
    places = control.sparkSession.createDataFrame(wrong, "stream string, seq bigint")
    return control.join(F.broadcast(places), ["stream", "seq"], "left_anti")


def _chain(events: DataFrame, pruned: DataFrame, found: Verified) -> None:
    """Sequences, links and positions; and signatures, where there are any, over the same texts."""
    is_signed = bool(found.signed or found.community)
    with _kept(findings.chained(events, pruned, signed=is_signed)) as beside:
        _add(findings.wrong_places(beside), found)
        if is_signed:
            _signatures(beside, found)


def _signatures(beside: DataFrame, found: Verified) -> None:
    try:
        from tallystick.community import checking
        from tallystick.pipeline import signing
    except ModuleNotFoundError as missing:
        found.unsure.append(
            f"signatures were not checked, since {missing.name} is not installed: tallystick[community]"
        )
        return
    with _kept(signing.wrong_signatures(beside)) as wrong:
        nobodys = wrong.where(F.col("what") == checking.NOBODYS).count()
        _add(wrong.where(F.col("what") == checking.SIGNATURE), found)
    if nobodys:
        found.unsure.append(f"{nobodys} events are signed by somebody whom nothing names")


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
        _add(findings.unknown_events(archived, ends), found)
