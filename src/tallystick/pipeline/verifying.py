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
from tallystick.pipeline import archive_check, findings, manifest, shelving
from tallystick.pipeline.archive import why_not_witnessed
from tallystick.pipeline.columns import DDL
from tallystick.pipeline.failures import clear
from tallystick.pipeline.progress import Show, watched
from tallystick.pipeline.question import Question, absolute, open_log
from tallystick.pipeline.whole import Whole, whole
from tallystick.store.events import Problem

PROBLEMS_MAX = 10_000
NO_WITNESS = "that the newest live events were cut off cannot be found without a witness outside of the store"
_PAGE = 10_000
_SLICES_MAX = 1000
_PUSH_DOWN = "spark.sql.parquet.filterPushdown"

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
        source = whole(url, archive, over_pruned=True, over_holes=True, trusting=False)
        found = Verified(until=source.until, archived=source.through, streams=len(known.heads))
        _holes(url, found)
        found.unsure += _unreached(source)
        readable = _buckets(spark, source, found) if source.manifest is not None else []
        try:
            with _without_statistics(spark):
                _rows(spark, source, readable, known, found)
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


def _unreached(source: Whole) -> Iterator[str]:
    """What erasures have not reached yet: the next archive run takes it out."""
    if source.manifest is None or source.place is None:
        return
    if source.erased:
        yield f"{len(source.erased)} payloads were erased since the last archive run, and its files still hold them"
    if left := shelving.unlisted(source.place, source.manifest):
        yield f"{len(left)} files that no manifest names are in the archive, and may hold payloads that were erased"


def _buckets(spark: SparkSession, source: Whole, found: Verified) -> list[str]:
    """The archive against its manifest, the log's record of it and the live log; says which files can be read."""
    assert source.manifest is not None
    with open_log(source.url) as store:
        wrong = [*manifest.faults(source.manifest), *why_not_witnessed(source.manifest, store)]
    found.problems += [Problem("archive", reason) for reason in wrong]
    buckets, place = source.manifest.buckets, str(source.place)
    question = Question(url=absolute(source.url), over_pruned=True, over_holes=True)
    checks = spark.sparkContext.parallelize(buckets, min(max(len(buckets), 1), _SLICES_MAX))
    checked = checks.map(lambda bucket: archive_check.check(question, place, bucket)).collect() if buckets else []
    problems = [problem for item in checked for problem in item.problems]
    found.truncated = found.truncated or len(problems) > PROBLEMS_MAX
    found.problems += problems[:PROBLEMS_MAX]
    return [name for item in checked for name in item.readable]


def _stored(spark: SparkSession, source: Whole, readable: list[str]) -> DataFrame:
    """The rows of the files as they are, wrong ones too, without trusting their statistics."""
    files = [f"{source.place}/{name}" for name in readable if name.startswith(shelving.EVENTS)]
    if not files:
        return spark.createDataFrame([], DDL)
    options = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
    return spark.read.schema(DDL).options(**options).parquet(*files)


@contextmanager
def _without_statistics(spark: SparkSession) -> Iterator[None]:
    """Have Spark read every row group: what a file says of its own rows may be wrong."""
    before = spark.conf.get(_PUSH_DOWN)
    spark.conf.set(_PUSH_DOWN, "false")
    try:
        yield
    finally:
        spark.conf.set(_PUSH_DOWN, str(before))


@contextmanager
def _kept(table: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> Iterator[DataFrame]:
    """A table that is asked several times and computed once."""
    kept = table.persist(level)
    try:
        yield kept
    finally:
        kept.unpersist()


def _rows(spark: SparkSession, source: Whole, readable: list[str], known: Known, found: Verified) -> None:
    """Everything that the rows themselves tell. Each part reads the columns that it needs, once."""
    ends = _as_table(spark, known.heads)
    with _kept(source.tail(spark), StorageLevel.DISK_ONLY) as tail:
        archived = None if source.manifest is None else _stored(spark, source, readable)
        events = tail if archived is None else source.without_gone(archived).unionAll(tail)
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
            if archived is not None:  # with the archive at hand, only what was pruned without one may be missing
                pruned = pruned.where("accepted and archive is null")
            _chain(events, pruned, found)
            with _kept(findings.at_places(events, erased, sealed, ends)) as there:
                parts = [
                    findings.unexplained(suspects, erased),
                    findings.unkept_erasures(there, suspects, erased, pruned),
                    findings.wrong_seals(there, sealed),
                    findings.wrong_heads(there, ends, pruned),
                ]
                _add(reduce(DataFrame.unionAll, parts), found)
            if archived is not None:
                _streams(spark, archived, source, readable, found)


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


def _streams(spark: SparkSession, archived: DataFrame, source: Whole, readable: list[str], found: Verified) -> None:
    """Where blocks are wrong: which streams lack what, by the ends that were noted for them."""
    names = [f"{source.place}/{name}" for name in readable if name.startswith(shelving.HEADS)]
    if not names or not any(problem.what == "block" for problem in found.problems):
        return
    ends = spark.read.schema("stream string, seq bigint, link binary").parquet(*names)
    nothing_pruned = findings.pruned_claims(archived.limit(0))
    _add(findings.wrong_heads(findings.at_places(archived, ends), ends, nothing_pruned), found)
    _add(findings.unknown_events(archived, ends), found)
