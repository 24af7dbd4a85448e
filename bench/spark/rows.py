"""The rows of the pipeline. Sessions are warm: what Spark needs to start is measured on its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tallystick
from bench.harness import Bar, Row, Samples, Spec, measures, rate
from bench.spark.logs import Turnover, build
from bench.workshop import QUICK, Workshop, remove
from tallystick.pipeline import findings, read_events, session
from tallystick.pipeline.archive import archive
from tallystick.pipeline.rebuilding import rebuild
from tallystick.pipeline.whole import read_archive
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.store.verify import verify as verify_in_process

ROUNDS = 3
UNIT = "events/s"

SOURCE = Spec(name="source over files, to nowhere", unit=UNIT, bar=Bar("value", ">=", 400_000), covers=("PIPE-01",))
SOURCE_SQLITE = Spec(name="source over sqlite, to nowhere", unit=UNIT)
ARCHIVE = Spec(
    name="archive, files to Parquet with manifest", unit=UNIT, bar=Bar("value", ">=", 200_000), covers=("PIPE-02",)
)
CHECKSUMS = Spec(
    name="verify over the archive: payload checksums", unit=UNIT, bar=Bar("value", ">=", 1_200_000), covers=("PIPE-03",)
)
CHAIN = Spec(
    name="verify over the archive: chain",
    unit=UNIT,
    against="one process, everything",
    bar=Bar("value", ">=", 350_000),
    note="the process checks frames, checksums and links of the log in one go",
)
REBUILD = Spec(
    name="rebuild over the archive, a Python projection",
    unit=UNIT,
    against="one process, over the log",
    bar=Bar("value", ">=", 250_000),
    covers=("PIPE-04",),
)
START = Spec(name="starting Spark and its first job", unit="s")
CROSSOVER = Spec(
    name="events from which Spark is the faster rebuild", unit="events", note="start-up over the gain an event"
)
GROWTH = Spec(
    name="cost of an event, chain, large log over small", unit="x", bar=Bar("value", "<=", 1.2), note="after start-up"
)
CORES = Spec(name="chain on local[2] over local[1]", unit="x", bar=Bar("value", ">=", 1.4))


def nowhere(table: DataFrame) -> None:
    """Compute every row and keep none."""
    table.write.format("noop").mode("overwrite").save()


def best(count: int, work: Callable[[], object], *, rounds: int = ROUNDS) -> Samples:
    """The rate of some work, after one round that only warms up."""
    work()
    return Samples([rate(count, work) for _ in range(rounds)])


@measures(SOURCE, SOURCE_SQLITE, ARCHIVE, CHECKSUMS, CHAIN, REBUILD, START, CROSSOVER, GROWTH, CORES)
def pipeline(workshop: Workshop) -> Iterator[Row]:
    """Every row, over one large and one small log."""
    large, small = (200_000, 20_000) if workshop.scale == QUICK else (2_000_000, 200_000)
    note = f"{large:,} events"
    url, small_url = (f"files:{workshop.place('log')}" for _ in range(2))
    build(url, large)
    build(small_url, small)
    started = time.perf_counter()
    spark = session("local[2]", memory="3g")
    nowhere(read_events(spark, small_url, until=100))
    start = time.perf_counter() - started
    yield START.row(start)
    yield _row(SOURCE, best(large, lambda: nowhere(read_events(spark, url))), note)
    yield from _sqlite(spark, workshop, small)
    place, small_place = workshop.place("archive"), workshop.place("archive")
    yield _row(ARCHIVE, best(large, lambda: _archived(spark, url, place)), note)
    _archived(spark, small_url, small_place)
    yield _row(CHECKSUMS, best(large, lambda: _checksums(spark, place)), note)
    chain = best(large, lambda: _chain(spark, place))
    alone = _alone(url, large)
    yield CHAIN.row(chain.highest, alone, note=f"{note}, {chain.spread}")
    small_chain = best(small, lambda: _chain(spark, small_place))
    yield GROWTH.row(small_chain.highest / chain.highest, note=f"{small:,} to {large:,} events")
    yield from _rebuilding(spark, url, place, large, start)
    spark.stop()
    spark = session("local[1]", memory="3g")
    single = best(large, lambda: _chain(spark, place))
    spark.stop()
    yield CORES.row(chain.highest / single.highest, note=note)


def _row(spec: Spec, found: Samples, note: str) -> Row:
    return spec.row(found.highest, note=f"{note}, {found.spread}")


def _sqlite(spark: SparkSession, workshop: Workshop, count: int) -> Iterator[Row]:
    url = f"sqlite:{workshop.place('log')}.db"
    build(url, count)
    yield _row(SOURCE_SQLITE, best(count, lambda: nowhere(read_events(spark, url))), f"{count:,} events")


def _archived(spark: SparkSession, url: str, place: Path) -> None:
    remove(place)
    archive(spark, url, place)


def _checksums(spark: SparkSession, place: Path) -> None:
    events = read_archive(spark, place)
    erased = findings.erased_claims(events.where("stream like 'tally.%'"))
    assert findings.wrong_payloads(events, erased).count() == 0


def _chain(spark: SparkSession, place: Path) -> None:
    events = read_archive(spark, place)
    pruned = findings.pruned_claims(events.where("stream like 'tally.%'"))
    assert findings.wrong_places(findings.chained(events, pruned)).count() == 0


def _alone(url: str, count: int) -> float:
    with tallystick.open(url, readonly=True) as store:
        return rate(count, lambda: verify_in_process(store.log))


def _rebuilding(spark: SparkSession, url: str, place: Path, count: int, start: float) -> Iterator[Row]:
    with tallystick.open(url) as store:
        ours = best(count, lambda: rebuild(spark, store, Turnover(), place), rounds=2).highest
        alone = rate(count, lambda: rebuild_in_process(store, Turnover()))
    yield REBUILD.row(ours, alone, note=f"{count:,} events, rows written and switched to")
    gain = 1 / alone - 1 / ours
    if gain > 0:
        yield CROSSOVER.row(round(start / gain))
    else:
        yield CROSSOVER.failed("one process was faster at this size")


CASES = (pipeline,)
