"""SIGKILL of the tasks of a streaming batch, and a driver that accepts at most one megabyte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.event import canonical
from tallystick.pipeline import clear
from tallystick.pipeline.jobs.stream import stream
from tallystick.projections import Projection, ViewReader

STREAMS = 40
DRIVER = """
import json, sys
sys.path.insert(0, {here!r})
from test_killed_tasks import Dying
from tallystick.pipeline import session
from tallystick.pipeline.jobs.stream import stream
settings = {{"spark.driver.maxResultSize": "1m", "spark.sql.shuffle.partitions": "4"}}
settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = session("local[2,9]", memory="512m", settings=settings)
stream(spark, {url!r}, Dying({place!r}), {place!r} + "/checkpoint", batch_events=500).awaitTermination()
"""


class Dying(Projection):
    """A state of some size per stream. A task that folds it is killed as often as there are files in `deaths`."""

    types = ("order.noted",)
    key = "stream"

    def __init__(self, place: str) -> None:
        self.deaths = f"{place}/deaths"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"sum": 0, "text": ""}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more, or death."""
        if event.data["deadly"]:
            die_once(self.deaths)
        mixed = (found["sum"] * 31 + event.data["number"]) % 1_000_003
        return {"sum": mixed, "text": random.Random(mixed).randbytes(event.data["size"]).hex()}  # not to be compressed


def die_once(deaths: str) -> None:
    """Kill this process, if it is the one that takes a file from `deaths`."""
    for name in os.listdir(deaths):
        try:
            os.unlink(f"{deaths}/{name}")
        except FileNotFoundError:  # another task died of it
            continue
        os.kill(os.getpid(), signal.SIGKILL)


def fill(store: Store, place: Path, *, events: int, size: int, deaths: int) -> None:
    """Events of many streams; one in nine kills its task."""
    for begin in range(0, events, 100):
        for order in range(STREAMS):
            numbers = [number for number in range(begin, min(begin + 100, events)) if number % STREAMS == order]
            made = [NewEvent("order.noted", {"number": n, "size": size, "deadly": n % 9 == 8}) for n in numbers]
            if made:
                store.append(f"order/{order}", made)
    (place / "deaths").mkdir()
    for number in range(deaths):
        (place / "deaths" / str(number)).touch()


def require_whole(store: Store, projection: Dying) -> int:
    """The rows are exactly those of a fold up to their position."""
    place = store.log.views.place(projection.name)
    if place is None:
        return 0
    states: dict[str, Any] = {}
    for event in store.events(until=place.position):
        states[event.stream] = projection.apply(states.get(event.stream, projection.initial()), event)
    found = {row.key: row.state for row in store.log.views.rows(projection.name).rows}
    assert found == {key: canonical.encode_state(state) for key, state in states.items()}
    return place.position


def left(place: Path) -> list[str]:
    """The number of kills that are left; none happens in this process."""
    found = sorted(os.listdir(place / "deaths"))
    for name in found:
        (place / "deaths" / name).rename(place / name)
    return found


def test_a_batch_whose_task_is_killed_is_seen_whole_or_not_at_all(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """PIPE-07: on every engine, a query that dies with its task leaves whole batches; restarted, its rows are right."""
    projection = Dying(str(tmp_path))
    with tallystick.open(url) as store:
        fill(store, tmp_path, events=120, size=10, deaths=2)
        head = store.head()
    died = 0
    while True:
        try:
            with clear():
                stream(spark, url, projection, str(tmp_path / "checkpoint"), batch_events=50).awaitTermination()
            break
        except errors.JobFailed:
            died += 1
        waiting = left(tmp_path)
        with tallystick.open(url, readonly=True) as store:
            require_whole(store, projection)
        for name in waiting:
            (tmp_path / name).rename(tmp_path / "deaths" / name)
    assert died == 2
    with tallystick.open(url, readonly=True) as store:
        assert require_whole(store, projection) == head


@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_a_batch_larger_than_the_driver_takes_passes_and_its_tasks_are_killed(engine: str, tmp_path: Path) -> None:
    """PIPE-07: killed tasks are repeated within the batch, although the driver accepts only 1 MiB."""
    url = f"{engine}:{tmp_path}/log"
    with tallystick.open(url) as store:
        fill(store, tmp_path, events=400, size=100_000, deaths=4)
        head = store.head()
    code = DRIVER.format(here=str(Path(__file__).parent), url=url, place=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert left(tmp_path) == []
    with tallystick.open(url, readonly=True) as store:
        assert require_whole(store, Dying(str(tmp_path))) == head
        size = sum(len(json.dumps(state)) for _, state in ViewReader(store, "Dying").items())
    assert size > 4 << 20
