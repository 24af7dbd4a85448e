"""The rows of the pipeline. Sessions are warm: the start of Spark is measured separately.

Each job runs over three logs, so that its cost before the first event is known and can be subtracted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

from pyspark.sql import SparkSession

import tallystick
from bench.harness import Bar, Row, Spec, measures, rate
from bench.spark import figures
from bench.spark.costs import Job, Line, growth, line, measured
from bench.spark.figures import archived, verified
from bench.spark.logs import Log, Turnover, build, nowhere
from bench.workshop import QUICK, Workshop
from tallystick.pipeline import read_events, session
from tallystick.pipeline.archive.bucket_writer import stage_range
from tallystick.pipeline.archive.manifest import new_run
from tallystick.pipeline.jobs.archive import BUCKET_EVENTS, archive
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.source import data_source, partitions
from tallystick.pipeline.source.columns import COLUMNS
from tallystick.pipeline.source.log_query import LogQuery
from tallystick.pipeline.storage.directory import DirectoryStorage
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.projections.crossover import crossover_events
from tallystick.store.verify import verify as verify_in_process
from tallystick.testing import postgres

ROUNDS = 5
UNIT = "events/s"
ALONE = "one process"
CORES_OF_CROSSOVER = 8

SOURCE = Spec(
    name="source over files, to nowhere",
    unit=UNIT,
    against=f"{ALONE}, into the same batches",
    bar=Bar("value", ">=", 400_000),
    covers=("PIPE-01",),
)
SOURCE_SQLITE = Spec(name="source over sqlite, to nowhere", unit=UNIT)
SOURCE_POSTGRES = Spec(
    name="source over postgres, to nowhere",
    unit=UNIT,
    bar=Bar("value", ">=", 300_000),
    note="the server works on the same cores",
    covers=("PIPE-01",),
)
ARCHIVE = Spec(
    name="archive, files to Parquet with manifest",
    unit=UNIT,
    against=f"{ALONE}, the same files",
    bar=Bar("value", ">=", 200_000),
    covers=("PIPE-02",),
)
VERIFY = Spec(
    name="verify over the archive, payload and chain",
    unit=UNIT,
    against=f"{ALONE}, over the log",
    note="each checks everything that it checks for a user; the process reads frames, Spark the files of the archive",
    covers=("PIPE-03",),
)
REBUILD = Spec(
    name="rebuild over the archive, a Python projection",
    unit=UNIT,
    against=f"{ALONE}, over the log",
    bar=Bar("value", ">=", 250_000),
    covers=("PIPE-04",),
)
START = Spec(name="starting Spark and its first job", unit="s")
CROSSOVER = Spec(
    name="events from which Spark with 8 cores is the faster rebuild",
    unit="events",
    against="what `--on auto` goes by",
    note="computed from costs: what comes before the first event, over the gain an event",
)
GROWTH = Spec(
    name="cost of one more event, large log over small",
    unit="x",
    bar=Bar("value", "<=", 1.2),
    note="slopes, so that start-up is in neither; the worst of source, archive and verify",
)
CORES = Spec(name="verify on local[2] over local[1]", unit="x", bar=Bar("value", ">=", 1.4))


@cache
def logs_of(workshop: Workshop) -> tuple[Log, ...]:
    """A tiny, a small and a large log, made once."""
    sizes = (20_000, 60_000, 200_000) if workshop.scale == QUICK else (20_000, 200_000, 2_000_000)
    logs = tuple(Log(size, f"files:{workshop.place('log')}", workshop.place("archive")) for size in sizes)
    for log in logs:
        build(log.url, log.events)
    return logs


@measures(START, SOURCE, ARCHIVE, VERIFY, GROWTH, CORES)
def pipeline(workshop: Workshop) -> Iterator[Row]:
    """Source, archive and verify over three logs."""
    logs = logs_of(workshop)
    large = logs[-1]
    spark, start = _started(logs)
    yield START.row(start)
    found = {spec: _sizes(logs, work) for spec, work in _jobs(spark).items()}
    for spec, jobs in found.items():
        yield _row(spec, jobs[large.events], _alone(spec, large, workshop))
    yield _grown({spec.name: jobs for spec, jobs in found.items()})
    spark.stop()
    yield _on_one_core(large, found[VERIFY][large.events])


@measures(SOURCE_SQLITE, SOURCE_POSTGRES)
def databases(workshop: Workshop) -> Iterator[Row]:
    """The source over databases: with smaller logs, since they take longer to fill."""
    count = 50_000 if workshop.scale == QUICK else 500_000
    spark = session("local[2]", memory="3g")
    yield _source(spark, SOURCE_SQLITE, f"sqlite:{workshop.place('log')}.db", count)
    with postgres.database() as url:
        yield _source(spark, SOURCE_POSTGRES, url, count)
    spark.stop()


@measures(REBUILD, CROSSOVER)
def rebuilding(workshop: Workshop) -> Iterator[Row]:
    """The same projection, folded on Spark and in one process, and the size at which both are equally fast."""
    logs = logs_of(workshop)
    spark, start = _started(logs)
    for log in logs:
        if not log.place.exists():
            archive(spark, log.url, log.place)
    ours = _sizes(logs, lambda log: _rebuilt(spark, log))
    spark.stop()
    alone = _sizes(logs, _rebuilt_in_process)
    _, small, large = (log.events for log in logs)
    yield _row(REBUILD, ours[large], alone[large].rate)
    yield _met(line(alone[small], alone[large]), line(ours[small], ours[large]), start)


_first_start: list[float] = []


def _started(logs: tuple[Log, ...]) -> tuple[SparkSession, float]:
    """A session, and the time until its first job was done; if Java was running already, the time measured then."""
    started = time.perf_counter()
    spark = session("local[2]", memory="3g")
    nowhere(read_events(spark, logs[0].url, until=100))
    _first_start.append(time.perf_counter() - started)
    return spark, _first_start[0]


def _row(spec: Spec, found: Job, against: float | None = None) -> Row:
    note = f"{found.events:,} events, best of {ROUNDS}, {found.told}"
    return spec.row(found.rate, against, note=note)


# --- on Spark --------------------------------------------------------------------------------------------------------


def _jobs(spark: SparkSession) -> dict[Spec, Callable[[Log], object]]:
    """The jobs over each log, in an order in which the archive exists when it is read."""
    return {
        SOURCE: lambda log: nowhere(read_events(spark, log.url)),
        ARCHIVE: lambda log: archived(spark, log),
        VERIFY: lambda log: verified(spark, log),
    }


def _sizes(logs: Sequence[Log], work: Callable[[Log], object]) -> dict[int, Job]:
    return measured({log.events: partial(work, log) for log in logs}, rounds=ROUNDS)


def _grown(found: Mapping[str, dict[int, Job]]) -> Row:
    each = {name: growth(*(jobs[size] for size in sorted(jobs))) for name, jobs in found.items()}
    if any(figure is None for figure in each.values()):
        return GROWTH.failed("the machine was too busy: a larger log took less time than a smaller one")
    figures = {name: figure for name, figure in each.items() if figure is not None}
    note = ", ".join(f"{name.partition(',')[0]} {figure:.2f}" for name, figure in figures.items())
    return GROWTH.row(max(figures.values()), note=note)


def _source(spark: SparkSession, spec: Spec, url: str, count: int) -> Row:
    build(url, count)
    return _row(spec, measured({count: lambda: nowhere(read_events(spark, url))}, rounds=ROUNDS)[count])


def _on_one_core(log: Log, both: Job) -> Row:
    spark = session("local[1]", memory="3g")
    one = measured({log.events: lambda: verified(spark, log)}, rounds=ROUNDS)[log.events]
    spark.stop()
    return CORES.row(one.best.seconds / both.best.seconds, note=f"{log.events:,} events, {one.told} on one")


# --- in one process --------------------------------------------------------------------------------------------------


def _alone(spec: Spec, log: Log, workshop: Workshop) -> float | None:
    """The same job without Spark, if there is one."""
    question = LogQuery(url=log.url, until=log.events, over_pruned=True)
    if spec is SOURCE:
        return rate(log.events, lambda: _read(question))
    if spec is ARCHIVE:
        place, run = DirectoryStorage(workshop.place("staged")), new_run()
        parts = partitions.split(0, log.events, partition_events=BUCKET_EVENTS)
        return rate(log.events, lambda: [stage_range(question, part, place, run) for part in parts])
    if spec is VERIFY:
        with tallystick.open(log.url, readonly=True) as store:
            return rate(log.events, lambda: verify_in_process(store.log))
    return None


def _read(question: LogQuery) -> None:
    for _ in data_source.read_range(question, COLUMNS, partitions.Range(0, question.until or 0)):
        pass


# --- where they meet -------------------------------------------------------------------------------------------------


def _met(process: Line, spark: Line, start: float) -> Row:
    """The size at which a rebuild on Spark, with its start, takes as long as one in a process, by number of cores."""
    meets = {}
    for cores in sorted({os.cpu_count() or 1, 4, CORES_OF_CROSSOVER, 16}):
        gain = process.each - spark.each / cores
        waited = start + spark.fixed / cores - process.fixed
        meets[cores] = round(waited / gain) if gain > 0 else None
    told = ", ".join(f"{'never' if found is None else f'{found:,}'} with {cores}" for cores, found in meets.items())
    note = f"{process.each * 1e6:.1f} µs an event in one process, {spark.each * 1e6:.1f} on Spark; by cores: {told}"
    value = meets[CORES_OF_CROSSOVER]
    if value is None:
        return CROSSOVER.failed(note)
    return CROSSOVER.row(value, crossover_events(CORES_OF_CROSSOVER), note=note)


def _rebuilt(spark: SparkSession, log: Log) -> None:
    with tallystick.open(log.url) as store:
        rebuild(spark, store, Turnover(), log.place)


def _rebuilt_in_process(log: Log) -> None:
    with tallystick.open(log.url) as store:
        rebuild_in_process(store, Turnover())


CASES = (pipeline, databases, rebuilding, *figures.CASES)
