"""Every job, as a driver on a cluster runs it: `python cluster_jobs.py MASTER PLACE KILL JOB…` prints its results.

KILL is what is killed as soon as Spark runs a job: an `executor`; or the `driver`, by the test, which waits until
the job is reported as begun. The expected results come from the store itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tallystick
from tallystick import NewEvent, state
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.state import reducer

EVENTS, STREAMS, ROWS = 3000, 9, 240
SLOW_SECONDS = 0.05
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.sql.adaptive.enabled": "false",  # else small parts are one task, and there is nothing to compare it with
}
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Visits(Projection):
    """The events of every stream, in order."""

    types = ("order.noted",)
    key = "stream"
    factor = 31

    def initial(self) -> dict[str, int]:
        """Nothing yet."""
        return {"sum": 0}

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One event more."""
        return {"sum": (found["sum"] * self.factor + event.data["n"]) % 1_000_003}


class Others(Visits):
    """Another version of it."""

    factor = 37


class Slow(Visits):
    """The same, slow in the first attempt at the part of one stream; a second attempt leaves a file."""

    def __init__(self, place: Path) -> None:
        self.seen = str(place / "again")

    def apply(self, found: dict[str, int], event: Any) -> dict[str, int]:
        """One event more."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None and task.attemptNumber():
            Path(self.seen).touch()
        elif task is not None and event.stream == "order/o0":
            time.sleep(SLOW_SECONDS)
        return super().apply(found, event)


@reducer(name="cluster.count", initial={"events": 0})
def count(found: dict[str, int], event: Any) -> dict[str, int]:
    """How many events."""
    return {"events": found["events"] + 1}


def fill(place: Path) -> None:
    """A log with sealed streams, and an empty one to write into."""
    with tallystick.open(log(place)) as store:
        for number in range(EVENTS // 50):
            for stream in range(STREAMS):
                events = [NewEvent("order.noted", {"n": number * 7 + i}) for i in range(50 // STREAMS + 1)]
                store.append(f"order/o{stream}", events)
        for stream in range(3):
            state.seal(store, count, f"order/o{stream}")
    tallystick.open(target(place)).close()


def log(place: Path) -> str:
    """The log that the jobs read."""
    return f"sqlite:{place}/log.db"


def target(place: Path) -> str:
    """The log that the sink writes into."""
    return f"sqlite:{place}/target.db"


def source(spark: Any, place: Path) -> Any:
    """Where every event is."""
    from tallystick.pipeline import read_events

    table = read_events(spark, log(place), columns=("position", "link"), partition_events=400)
    return sorted([row[0], bytes(row[1]).hex()] for row in table.collect())


def sink(spark: Any, place: Path) -> Any:
    """The content of each stream of the written log."""
    from tallystick.pipeline.sink import write_events

    rows = [(f"order/w{n % STREAMS}", "order.paid", json.dumps({"n": n}), n) for n in range(ROWS)]
    table = spark.createDataFrame(rows, "stream string, type string, payload string, at int")
    write_events(table.repartition(6), target(place), order="at", from_content=True)
    with tallystick.open(target(place), readonly=True) as store:
        return {info.stream: [event.data["n"] for event in store.stream(info.stream)] for info in store.streams()}


def archive(spark: Any, place: Path) -> Any:
    """The end of the archive, and its number of rows."""
    from tallystick.pipeline.jobs.archive import archive as run

    done = run(spark, log(place), place / "archive", bucket_events=400)
    return [done.through, done.rows]


def verify(spark: Any, place: Path) -> Any:
    """Whether there are no findings, and the number of events."""
    from tallystick.pipeline.jobs.verify import verify as run

    found = run(spark, log(place), place / "archive")
    return [found.ok, found.events]


def rebuild(spark: Any, place: Path) -> Any:
    """The fingerprint of the rows."""
    from tallystick.pipeline.jobs.rebuild import rebuild as run

    with tallystick.open(log(place)) as store:
        run(spark, store, Visits(), place / "archive")
        return ViewReader(store, "Visits").fingerprint().digest


def diff(spark: Any, place: Path) -> Any:
    """The number of keys that differ, and of all keys."""
    from tallystick.pipeline.jobs.diff import diff as run

    found = run(spark, log(place), Visits(), Others(), place / "archive")
    return [found.differing, found.keys]


def replay_check(spark: Any, place: Path) -> Any:
    """The number of sealed streams that agree, and that do not."""
    from tallystick.pipeline.jobs.replay_check import replay_check as run

    found = run(spark, log(place), state.registry([count]))
    return [found.same, found.different]


def compact(spark: Any, place: Path) -> Any:
    """The number of buckets, and whether there are problems."""
    from tallystick.pipeline.jobs.compact import compact as run

    done = run(spark, place / "archive", bucket_events=1200)
    return [done.buckets_after, done.ok]


def growth(spark: Any, place: Path) -> Any:
    """The number of events of each type."""
    from tallystick.pipeline.jobs.growth import growth as run

    return {item.type: item.events for item in run(spark, log(place), place / "archive").types}


def sql(spark: Any, place: Path) -> Any:
    """A sum over payloads."""
    from tallystick.pipeline.jobs.query import sql as run

    (row,) = run(spark, log(place), "select sum(data.n) from events", place / "archive").collect()
    return row[0]


def stream(spark: Any, place: Path) -> Any:
    """The fingerprint of the rows that a query keeps current."""
    from tallystick.pipeline.jobs.stream import stream as run

    run(spark, log(place), Others(), str(place / "checkpoint"), batch_events=900).awaitTermination()
    with tallystick.open(log(place), readonly=True) as store:
        return ViewReader(store, "Others").fingerprint().digest


def speculate(spark: Any, place: Path) -> Any:
    """The fingerprint of rows that two attempts of a task fill at the same time, and whether there were two."""
    from tallystick.pipeline.jobs.stream import stream as run

    for name, value in SPECULATION.items():
        if name.startswith("spark.sql."):
            spark.conf.set(name, value)
    run(spark, log(place), Slow(place), str(place / "slow"), batch_events=900).awaitTermination()
    with tallystick.open(log(place), readonly=True) as store:
        return [ViewReader(store, "Slow").fingerprint().digest, (place / "again").exists()]


JOBS: dict[str, Callable[[Any, Path], Any]] = {
    job.__name__: job
    for job in (source, sink, archive, verify, rebuild, diff, replay_check, compact, growth, sql, stream)
}


def expected(place: Path) -> dict[str, Any]:
    """The expected result of each job, computed without Spark; the rows are those of a copy of the log."""
    import shutil

    shutil.copy(place / "log.db", place / "copy.db")
    with tallystick.open(f"sqlite:{place}/copy.db") as store:
        events = list(store.events())
        digests = {}
        for projection in (Visits(), Others()):
            rebuild_in_process(store, projection)
            digests[projection.name] = ViewReader(store, projection.name).fingerprint().digest
    types = {event.type: sum(other.type == event.type for other in events) for event in events}
    streams = [f"order/w{number}" for number in range(STREAMS)]
    head = events[-1].position
    return {
        "source": [[event.position, event.link.hex()] for event in events],
        "sink": {name: [n for n in range(ROWS) if f"order/w{n % STREAMS}" == name] for name in streams},
        "archive": [head, len(events)],
        "verify": [True, len(events)],
        "rebuild": digests["Visits"],
        "diff": [STREAMS, STREAMS],
        "replay_check": [3, 0],
        "compact": [-(-head // 1200), True],
        "growth": types,
        "sql": sum(event.data["n"] for event in events if event.type == "order.noted"),
        "stream": digests["Others"],
    }


def executors(workers: str) -> list[int]:
    """The processes that the workers have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if fields[1] in workers.split(","):
            found.append(int(path.parent.name))
    return found


def kill_executor(name: str) -> bool:
    """Kill an executor, if there is one."""
    found = executors(os.environ["WORKERS"])
    if found:
        os.kill(min(found), signal.SIGKILL)
        print("killed", name, flush=True)
    return bool(found)


def say_begun(name: str) -> bool:
    """Report that the job has begun, so that this process can be killed."""
    print("began", name, flush=True)
    return True


WHEN_RUNNING: dict[str, Callable[[str], bool]] = {"executor": kill_executor, "driver": say_begun}


def when_running(spark: Any, name: str, over: threading.Event, act: Callable[[str], bool]) -> None:
    """Call a function once, as soon as Spark runs a job."""
    tracker = spark.sparkContext.statusTracker()
    while not over.is_set() and not (tracker.getActiveJobsIds() and act(name)):
        time.sleep(0.005)


def run(spark: Any, place: Path, name: str, act: Callable[[str], bool]) -> None:
    """Run a job, and print its result."""
    over = threading.Event()
    watcher = threading.Thread(target=when_running, args=(spark, name, over, act))
    watcher.start()
    print("said", name, json.dumps((JOBS | {"speculate": speculate})[name](spark, place)), flush=True)
    over.set()
    watcher.join()


def main(master: str, place: Path, kill: str, names: list[str]) -> None:
    """Run the jobs one after the other."""
    from tallystick.pipeline import session

    settings = SETTINGS | (SPECULATION if names == ["speculate"] else {})
    spark = session(master, memory="512m", settings=settings)
    for name in names:
        run(spark, place, name, WHEN_RUNNING[kill])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
