"""`verify`: check every event of the whole log in parallel: its bytes, its neighbours, and what other records claim.

Without a witness outside of the store it cannot find that the newest events were cut off together with all records of
them. Without an archive it cannot find that two events exchanged their positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark
from pyspark.storagelevel import StorageLevel

from tallystick import errors
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.bucket_writer import HEADS
from tallystick.pipeline.archive.history import as_witness, why_not_witnessed, witnesses
from tallystick.pipeline.archive.manifest import Manifest
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.source.log_query import absolute_url, open_log
from tallystick.pipeline.spark import tasks
from tallystick.pipeline.spark.failures import clear, mark_errors
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.spark.session import job_session, set_shuffle_partitions
from tallystick.pipeline.verify import findings, piece_check
from tallystick.pipeline.verify.chain_check import FACT, PROBLEM, READABLE, SUSPECT
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.store import iterate
from tallystick.store.events import Problem

PROBLEMS_MAX = 10_000
PLACES_SENT_MAX = 100_000  # sent to every task, so that no event goes through a shuffle
NO_WITNESS = "without a witness outside of the store, a cut of the newest live events cannot be found"
_PAGE = 10_000
HEADS_DDL = "stream string, seq bigint, link binary"

Head = tuple[str, int, bytes]


class VerifyResult(msgspec.Struct, kw_only=True):
    """What was checked and what was found. `ok` is the verdict; `unsure` lists what could not be checked."""

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
        """Whether no problem was found."""
        return not self.problems


def verify(
    spark: SparkSession, url: str, archive: str | Path | None = None, *, show: Show | None = None
) -> VerifyResult:
    """Verify a log, and its archive if it has one."""
    own = job_session(spark)
    with clear(), watched(spark, "verify", show), _persisted(_heads(own, url)) as heads:
        head = F.max(F.when(F.col("stream") == "", F.col("seq")))
        seen = _first(heads.agg(F.count_if(F.col("stream") != "").alias("streams"), head.alias("head")))
        source = whole_log(
            url,
            archive,
            over_pruned=True,
            over_holes=True,
            trusting=False,
            seen=seen["head"],
            ordered=False,
            spark=spark,
        )
        found = VerifyResult(until=source.until, archived=source.through, streams=seen["streams"])
        _add_known_problems(source, found)
        pieces = piece_check.pieces_of(source, cores=tasks.cores(spark))
        with _persisted(piece_check.check_pieces(own, source, pieces)) as checked:
            _check_rows(source, checked, heads.where("stream != ''"), 0 if source.by_stream else seen["head"], found)
    return found


def _heads(spark: SparkSession, url: str) -> DataFrame:
    """The store's head of each stream; and first, under an empty name, the head of the log.

    They are read before the table is fixed, so that the table has at least these events; and by a task, since there
    may be many streams.
    """
    address = absolute_url(url)

    def run(batches: Batches) -> Batches:
        with mark_errors(), open_log(address) as store:
            for _ in batches:
                yield _as_batch([("", store.log.head(), b"")])
                streams = iterate.streams(store.log)
                while page := list(islice(streams, _PAGE)):
                    yield _as_batch([(info.stream, info.seq, info.link) for info in page])

    return spark.range(0, 1, 1, 1).mapInArrow(run, HEADS_DDL)


def _as_batch(rows: list[Head]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), HEADS.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=HEADS)


def _add_known_problems(source: WholeLog, found: VerifyResult) -> None:
    """Add what is known without reading events: holes, faults of the manifest, and erasures that are not done."""
    with open_log(source.url) as store:
        for hole in store.log.holes():
            reason = f"positions {hole.first} to {hole.last}: {hole.reason}"
            found.problems.append(Problem("hole", reason, hole.first))
        if source.manifest is not None:
            wrong = islice(manifest.faults(source.manifest), PROBLEMS_MAX)
            found.problems += [Problem("archive", reason) for reason in wrong]
    found.unsure += _undone_erasures(source)


def _undone_erasures(source: WholeLog) -> Iterator[str]:
    """What erasures have not reached yet; the next archive run removes it."""
    if source.manifest is None or source.storage is None:
        return
    if source.erased:
        yield f"{len(source.erased)} payloads were erased since the last archive run, and its files still hold them"
    if left := archive_files.unlisted_files(source.storage, source.manifest):
        yield f"{len(left)} files in the archive are not in its manifest, and may hold erased payloads"


@contextmanager
def _persisted(table: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> Iterator[DataFrame]:
    """A table that is computed once and used several times."""
    persisted = table.persist(level)
    try:
        yield persisted
    finally:
        persisted.unpersist()


def _first(table: DataFrame) -> Row:
    found = table.first()
    assert found is not None
    return found


class _Counts(NamedTuple):
    """How many rows the tasks left for further checks."""

    rows: int
    facts: int
    suspects: int


def _count(checked: DataFrame, found: VerifyResult) -> _Counts:
    """Fill in the numbers of events; the numbers of rows that need further checks."""
    kind = F.col("kind")
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "signed", "community")]
    chosen = {"erased": (kind == SUSPECT) & F.col("gone"), "facts": kind == FACT, "suspects": kind == SUSPECT}
    counts = [F.count_if(is_chosen).alias(name) for name, is_chosen in chosen.items()]
    row = _first(checked.agg(*sums, *counts, F.count(F.lit(1)).alias("rows")))
    found.events, found.signed, found.community = row["events"], row["signed"], row["community"]
    found.erased = row["erased"]
    return _Counts(row["rows"], row["facts"], row["suspects"])


class _Claims(NamedTuple):
    """What other records claim: heads of streams, control facts, and payloads that do not fit their checksum."""

    ends: DataFrame
    pruned: DataFrame
    erased: DataFrame
    sealed: DataFrame
    suspects: DataFrame


def _check_rows(source: WholeLog, checked: DataFrame, heads: DataFrame, until: int, found: VerifyResult) -> None:
    """All checks on the rows that the tasks left."""
    counts = _count(checked, found)
    set_shuffle_partitions(
        checked.sparkSession, rows=counts.rows + found.streams, cores=tasks.cores(checked.sparkSession)
    )
    names = ("position", "stream", "seq")
    control = checked.where(F.col("kind") == FACT).select(*names, "type", "payload")
    suspects = checked.where(F.col("kind") == SUSPECT).select(*names, "checksum", "gone")
    own = checked.where(F.col("kind") == PROBLEM).select(*findings.FINDING)
    with _persisted(findings.stitch(checked, heads)) as joined:
        stitched, ends = joined.where(F.col("kind") != findings.HEAD), findings.unmatched_heads(joined)
        unknown = findings.unknown_facts(control, heads, until=until)
        with _persisted(_trusted(control, unknown, stitched, suspects) if counts.facts else control) as trusted:
            if source.manifest is not None:
                _check_witnesses(source, source.manifest, control if counts.facts else None, found)
            if counts.facts:
                found.pruned = _pruned_count(findings.pruned_claims(trusted))
            claims = _claims(source, ends, trusted, suspects)
            following = findings.with_cuts(stitched, claims.pruned) if counts.facts else findings.without_cuts(stitched)
            wrong = [own, findings.wrong_places(following)]
            if counts.facts or counts.suspects:
                wrong += [unknown, findings.unexplained_payloads(suspects, claims.erased)]
            _check_claims(source, checked, claims, counts, wrong, found)
            if found.signed or found.community:
                _check_signatures(following, found)


def _check_witnesses(source: WholeLog, listed: Manifest, control: DataFrame | None, found: VerifyResult) -> None:
    """Check that the archive is the one that the log was pruned by: by facts in the rows and facts about cuts."""
    known = []
    for row in findings.relied_on(control).collect() if control is not None else ():
        with suppress(msgspec.DecodeError):  # then the fact was changed, and another check reports that
            known.append(as_witness(msgspec.json.decode(row["archive"]), through=row["through"] or 0))
    with open_log(source.url) as store:
        if not store.log.holes():
            with suppress(errors.TallyError):  # as above
                known += witnesses(store)
        wrong = list(why_not_witnessed(listed, store, known=dict.fromkeys(known)))
    found.problems += [Problem("archive", reason) for reason in wrong[:PROBLEMS_MAX]]


def _claims(source: WholeLog, ends: DataFrame, trusted: DataFrame, suspects: DataFrame) -> _Claims:
    pruned = findings.pruned_claims(trusted)
    if source.manifest is not None:  # with an archive, only events that were pruned without it may be missing
        pruned = pruned.where("accepted and archive is null")
    return _Claims(ends, pruned, findings.erased_claims(trusted), findings.sealed_claims(trusted), suspects)


def _trusted(control: DataFrame, unknown: DataFrame, stitched: DataFrame, suspects: DataFrame) -> DataFrame:
    """The control facts that can explain a missing event or payload: linked, unchanged, and known to the log."""
    broken = findings.wrong_places(findings.without_cuts(stitched.where(F.col("stream").startswith("tally."))))
    bad = [item.select("stream", "seq") for item in (unknown, broken, suspects)]
    return control.join(reduce(DataFrame.unionAll, bad).distinct(), ["stream", "seq"], "left_anti")


def _pruned_count(claims: DataFrame) -> int:
    """The number of pruned events, by the last fact about each stream."""
    gone = claims.groupBy("stream").agg(F.max("count").alias("count")).agg(F.sum("count")).first()
    return (gone[0] if gone is not None else 0) or 0


def _check_claims(
    source: WholeLog, checked: DataFrame, claims: _Claims, counts: _Counts, wrong: list[DataFrame], found: VerifyResult
) -> None:
    """Check the claims about single events. Events that no piece has reported are looked up in the whole log."""
    gone = claims.suspects.where("gone").select("stream", "seq")
    still = claims.erased.join(gone, ["stream", "seq"], "left_anti")
    named = [claims.ends, *([still, claims.sealed] if counts.facts else [])]
    with _persisted(findings.places(*named)) as places:
        if count := places.count():  # otherwise every claim holds
            there = _located(source, checked, places, count)
            wrong = [*wrong, findings.wrong_heads(there, claims.ends, claims.pruned)]
            if counts.facts:
                wrong.append(findings.unkept_erasures(there, claims.suspects, claims.erased, claims.pruned))
                wrong.append(findings.wrong_seals(there, claims.sealed))
        _add(reduce(DataFrame.unionAll, wrong), found)
    _check_streams(source, checked, found)


def _located(source: WholeLog, checked: DataFrame, places: DataFrame, count: int) -> DataFrame:
    """(stream, seq, position, found_link) of the events at these places: one more pass over the log, only if needed."""
    spark = checked.sparkSession
    events = source.tail(spark, columns=piece_check.LOCATED)
    if source.storage is not None:
        events = piece_check.stored_events(spark, source.storage, _readable(checked, archive_files.EVENTS)).unionAll(
            events
        )
    return findings.located(events, F.broadcast(places) if count <= PLACES_SENT_MAX else places)


def _readable(checked: DataFrame, folder: str) -> list[str]:
    found = checked.where((F.col("kind") == READABLE) & F.col("what").startswith(folder)).select("what").collect()
    return [row["what"] for row in found]


def _check_streams(source: WholeLog, checked: DataFrame, found: VerifyResult) -> None:
    """If blocks are wrong, find which streams lack events, by the ends in the archive."""
    if not any(problem.what == "block" for problem in found.problems):
        return
    spark, names = checked.sparkSession, _readable(checked, archive_files.HEADS)
    if not names or source.storage is None:
        return
    archived = piece_check.stored_events(spark, source.storage, _readable(checked, archive_files.EVENTS))
    ends = piece_check.stored_ends(spark, source.storage, names)
    nothing = checked.limit(0).select("stream", F.col("seq").alias("through"))
    missing = findings.wrong_heads(findings.located(archived, findings.places(ends)), ends, nothing)
    _add(missing.unionAll(findings.unknown_events(archived, ends)), found)


def _check_signatures(stitched: DataFrame, found: VerifyResult) -> None:
    try:
        from tallystick.community import signatures as authors
        from tallystick.pipeline.verify import signatures
    except ModuleNotFoundError as missing:
        found.unsure.append(
            f"signatures were not checked, since {missing.name} is not installed: tallystick[community]"
        )
        return
    with _persisted(signatures.wrong_signatures(stitched)) as wrong:
        nobodys = wrong.where(F.col("what") == authors.NOBODYS).count()
        _add(wrong.where(F.col("what") == authors.SIGNATURE), found)
    if nobodys:
        found.unsure.append(f"{nobodys} events are signed with a key that nothing names")


def _add(wrong: DataFrame, found: VerifyResult) -> None:
    rows = wrong.orderBy("position", "stream", "seq").limit(PROBLEMS_MAX + 1).collect()
    found.truncated = found.truncated or len(rows) > PROBLEMS_MAX
    for row in rows[:PROBLEMS_MAX]:
        found.problems.append(
            Problem(row["what"], row["reason"], row["position"] or 0, row["stream"] or "", row["seq"] or 0)
        )
