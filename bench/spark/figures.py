"""The processor time per event of every job, over logs of 1, 4 and 10 million events, and over logs of odd shapes.

Costs are processor time of all processes, without the start of the session: on a busy machine the clock says little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, measures
from bench.spark import driver_memory
from bench.spark.costs import Job, measured
from bench.spark.logs import Log, Turnover, build, few_streams, hot_stream, many_streams, nowhere
from bench.workshop import QUICK, Workshop, remove
from tallystick.pipeline import read_events, session
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.diff import diff
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.pipeline.jobs.verify import verify
from tallystick.projections.summary import Summary, count, max_, payload, sum_

ROUNDS = 3
SIZES, SIZES_QUICK = (1_000_000, 4_000_000, 10_000_000), (20_000, 80_000, 200_000)
ODD, ODD_QUICK = 1_000_000, 50_000


class Orders(Summary):
    """`Turnover` as a summary."""

    types = (payloads.TYPE,)
    key = "stream"
    orders = count()
    total = sum_(payload.total)
    most = max_(payload.total)


def _cost(job: str, most_us: float) -> Spec:
    name = f"{job}: processor time of an event, largest log"
    return Spec(name=name, unit="µs", bar=Bar("value", "<=", most_us), note="everything but the start of the session")


COSTS = {
    "source": _cost("source", 3.8),
    "archive": _cost("archive", 4.7),
    "verify": _cost("verify, payload and chain", 6.0),
    "rebuild": _cost("rebuild, a Python projection", 5.0),
    "diff": _cost("diff of two Python projections", 8.0),
    "summary": _cost("rebuild, a summary", 1.5),
}
GROWS = Spec(
    name="processor time of an event, largest log over the middle one",
    unit="x",
    bar=Bar("value", "<=", 1.1),
    note="the worst of all jobs",
)
DRIVER = Spec(
    name="driver's memory after all jobs, largest log over the smallest",
    unit="x",
    bar=Bar("value", "<=", 1.2),
    note="a driver with an executor of its own: the process, and the JVM's heap after garbage collection",
)
MANY = Spec(
    name="verify: a stream for each event over ten streams",
    unit="x",
    bar=Bar("value", "<=", 1.5),
    note="processor time of as many events",
)
HOT = Spec(
    name="verify and rebuild: nine tenths of all events in one stream, over streams of a hundred",
    unit="x",
    bar=Bar("value", "<=", 1.3),
    note="the clock's time of as many events, since a task that others wait for costs nothing else; the worse of both",
)


@measures(*COSTS.values(), GROWS, DRIVER)
def costs(workshop: Workshop) -> Iterator[Row]:
    """Every job over three logs, one log at a time, so that only one is on disk."""
    spark = session("local[2]", memory="3g")
    found: dict[str, list[Job]] = {job: [] for job in COSTS}
    memory: list[float] = []
    for events in SIZES_QUICK if workshop.scale == QUICK else SIZES:
        log = Log(events, f"files:{workshop.place('log')}", workshop.place("archive"))
        build(log.url, events)
        for job, work in jobs(spark, log).items():
            found[job].append(measured({events: work}, rounds=ROUNDS)[events])
        memory.append(driver_memory.after_all_jobs(log))
        remove(log.place)
        remove(Path(log.url.removeprefix("files:")))
    spark.stop()
    for job, spec in COSTS.items():
        yield spec.row(
            _each(found[job][-1]), note="; ".join(f"{one.events:,} events: {_told(one)}" for one in found[job])
        )
    grown = {job: _each(its[-1]) / _each(its[-2]) for job, its in found.items()}
    yield GROWS.row(max(grown.values()), note=", ".join(f"{job} {grown[job]:.2f}" for job in grown))
    yield DRIVER.row(memory[-1] / memory[0], note=", ".join(f"{size:,.0f} MB" for size in memory))


@measures(MANY, HOT)
def forms(workshop: Workshop) -> Iterator[Row]:
    """The same number of events, in logs of other shapes."""
    spark = session("local[2]", memory="3g")
    count_ = ODD_QUICK if workshop.scale == QUICK else ODD
    ten, many, even, hot = (
        _archived(spark, workshop, count_, stream_of) for stream_of in (few_streams, many_streams, None, hot_stream)
    )
    verified = {
        log.url: measured({count_: jobs(spark, log)["verify"]}, rounds=ROUNDS)[count_] for log in (ten, many, even, hot)
    }
    rebuilt = {log.url: measured({count_: jobs(spark, log)["rebuild"]}, rounds=ROUNDS)[count_] for log in (even, hot)}
    spark.stop()
    note = ", ".join(f"{_each(verified[log.url]):.1f} µs" for log in (ten, many))
    yield MANY.row(_each(verified[many.url]) / _each(verified[ten.url]), note=f"{count_:,} events: {note}")
    waits = [its[hot.url].best.seconds / its[even.url].best.seconds for its in (verified, rebuilt)]
    yield HOT.row(max(waits), note=f"{count_:,} events: verify {waits[0]:.2f}, rebuild {waits[1]:.2f}")


def _archived(spark: SparkSession, workshop: Workshop, events: int, stream_of: Callable[[int], str] | None) -> Log:
    log = Log(events, f"files:{workshop.place('log')}", workshop.place("archive"))
    build(log.url, events, stream_of)
    archive(spark, log.url, log.place)
    return log


def jobs(spark: SparkSession, log: Log) -> dict[str, Callable[[], object]]:
    """The jobs over a log, in an order in which the archive exists when it is read."""
    return {
        "source": lambda: nowhere(read_events(spark, log.url)),
        "archive": lambda: archived(spark, log),
        "verify": lambda: verified(spark, log),
        "rebuild": lambda: _rebuilt(spark, log, Turnover()),
        "diff": lambda: _same(spark, log),
        "summary": lambda: _rebuilt(spark, log, Orders()),
    }


def archived(spark: SparkSession, log: Log) -> None:
    """Archive a whole log again."""
    remove(log.place)
    archive(spark, log.url, log.place)


def verified(spark: SparkSession, log: Log) -> None:
    """Verify a log with its archive; there must be no findings."""
    found = verify(spark, log.url, log.place)
    assert found.ok, found.problems
    assert found.events == found.archived == found.until >= log.events, found  # settings are an event more


def _rebuilt(spark: SparkSession, log: Log, projection: Turnover | Orders) -> None:
    with tallystick.open(log.url) as store:
        rebuild(spark, store, projection, log.place)


def _same(spark: SparkSession, log: Log) -> None:
    found = diff(spark, log.url, Turnover(), Turnover(), log.place)
    assert found.same
    assert found.keys, found


def _each(job: Job) -> float:
    return 1e6 * job.least.whole / job.events


def _told(job: Job) -> str:
    return f"{job.told}, {job.rate:,.0f}/s"


CASES = (costs, forms)
