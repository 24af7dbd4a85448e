"""Every job on a real cluster: a standalone master and two workers on loopback, as separate processes.

`cluster_jobs.py` has the jobs. Executors and drivers are killed while they run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

import tallystick
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.spark.java import find_java
from tallystick.projections import ViewReader
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.store.selection import Selection

IN_THE_GATE = ("archive", "rebuild", "stream")  # what publishes files, rows and checkpoints
KILL_SECONDS = 1.5  # a driver is killed so long at most after Spark began its job
SPARK_HOME = Path(pyspark.__file__).parent
SCRIPT = Path(__file__).with_name("cluster_jobs.py")
_spec = importlib.util.spec_from_file_location("cluster_jobs", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
jobs = importlib.util.module_from_spec(_spec)
sys.modules["cluster_jobs"] = jobs
_spec.loader.exec_module(jobs)


class Cluster(NamedTuple):
    """The URL of the master, and the processes of the workers."""

    master: str
    environment: dict[str, str]

    def start(self, place: Path, kill: str, *names: str) -> Driver:
        """A driver that runs these jobs, as the leader of its own process group."""
        said = place / f"{time.monotonic_ns()}.out"
        with said.open("w") as out, said.with_suffix(".err").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), self.master, str(place), kill, *names],
                env=self.environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return Driver(process, said)


class Driver(NamedTuple):
    """The process of a driver, and the file with its output: its JVM would keep a pipe open."""

    process: subprocess.Popen[bytes]
    file: Path

    def lines(self, what: str) -> list[list[str]]:
        """The lines of one kind that it has printed so far: the name of a job, and details."""
        whole = self.file.read_text().rpartition("\n")[0].splitlines()
        return [line.split(" ", 2)[1:] for line in whole if line.startswith(f"{what} ")]

    def said(self) -> dict[str, Any]:
        """What each job has said."""
        return {name: json.loads(text) for name, text in self.lines("said")}

    def kill_in(self, killed: list[str], chance: random.Random) -> None:
        """Wait for a job in which no driver was killed yet, and kill the driver, unless it ends before that."""
        while self.process.poll() is None:
            for (name,) in self.lines("began"):
                if name not in killed and name not in self.said():
                    time.sleep(chance.uniform(0, KILL_SECONDS))
                    if name not in self.said():
                        (os.killpg if chance.random() < 0.5 else os.kill)(self.process.pid, signal.SIGKILL)
                        self.process.wait()
                        killed += [name] if name not in self.said() else []
            time.sleep(0.01)
        errors = self.file.with_suffix(".err").read_text()
        assert self.process.returncode in (0, -signal.SIGKILL), errors[-3000:]

    def end(self) -> None:
        """End it together with its JVM, which may outlive it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found: int = taken.getsockname()[1]
        return found


@contextmanager
def process(*arguments: str, log: Path, environment: dict[str, str]) -> Iterator[int]:
    """A process of Spark, which is ended after the test; its id."""
    with log.open("w") as file:
        started = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments], env=environment, stdout=file, stderr=file
        )
        try:
            yield started.pid
        finally:
            started.terminate()
            started.wait(timeout=60)


def wait_for(port: int) -> None:
    """Until somebody listens."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("nobody listens")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers without our package on their path."""
    place, port = tmp_path_factory.mktemp("cluster"), free_port()
    without_us = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment = without_us | {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": find_java(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = ("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "700m")
    with ExitStack() as stack:
        stack.enter_context(process(*master, log=place / "master.log", environment=environment))
        wait_for(port)
        address, workers = f"spark://127.0.0.1:{port}", []
        for name, host in (("one", "127.0.0.1"), ("other", "127.0.0.2")):  # a second attempt goes to another host
            arguments = (*worker, "--host", host, "--webui-port", "0", "-d", str(place / name), address)
            workers.append(stack.enter_context(process(*arguments, log=place / f"{name}.log", environment=environment)))
        ours = {"WORKERS": ",".join(map(str, workers)), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        yield Cluster(address, environment | ours)


@pytest.mark.timeout(1800)
def test_every_job_survives_a_killed_executor(cluster: Cluster, tmp_path: Path) -> None:
    """PIPE-09: each job gives the right result, although executors are killed while it runs."""
    jobs.fill(tmp_path)
    wanted = jobs.expected(tmp_path)
    driver = cluster.start(tmp_path, "executor", *jobs.JOBS)
    try:
        assert driver.process.wait(timeout=1500) == 0, driver.file.with_suffix(".err").read_text()[-3000:]
    finally:
        driver.end()
    said, killed = driver.said(), driver.lines("killed")
    assert {name: said[name] == wanted[name] for name in jobs.JOBS} == dict.fromkeys(jobs.JOBS, True)
    assert len(killed) >= len(jobs.JOBS) - 1, killed  # one may be over before Spark says that it has begun


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chosen", [IN_THE_GATE, pytest.param(tuple(jobs.JOBS), marks=pytest.mark.slow)], ids=len)
def test_every_job_survives_a_killed_driver(cluster: Cluster, tmp_path: Path, chosen: tuple[str, ...]) -> None:
    """PIPE-09: a job whose driver is killed publishes nothing half-finished; a second run is right.

    Either the whole driver is killed, or only its Python process: then its JVM and tasks run on for a moment.
    """
    jobs.fill(tmp_path)
    wanted = jobs.expected(tmp_path)
    chance, said, killed = random.Random(1), dict[str, Any](), list[str]()
    drivers: list[Driver] = []
    try:
        while left := [name for name in chosen if name not in said]:
            drivers.append(cluster.start(tmp_path, "driver", *left))
            drivers[-1].kill_in(killed, chance)
            said |= drivers[-1].said()
            require_nothing_half_made(tmp_path, wanted)
    finally:
        for driver in drivers:
            driver.end()
    assert {name: said[name] == wanted[name] for name in chosen} == dict.fromkeys(chosen, True)
    assert len(killed) >= len(chosen) - 2, killed  # one may be over before the kill comes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_attempts_of_a_task_fill_one_batch(cluster: Cluster, tmp_path: Path) -> None:
    """PIPE-07: if Spark starts a copy of a slow task, the rows are still those of a fold."""
    jobs.fill(tmp_path)
    driver = cluster.start(tmp_path, "driver", "speculate")
    try:
        assert driver.process.wait(timeout=500) == 0, driver.file.with_suffix(".err").read_text()[-3000:]
    finally:
        driver.end()
    digest, twice = driver.said()["speculate"]
    with tallystick.open(jobs.log(tmp_path)) as store:
        rebuild_in_process(store, jobs.Slow(tmp_path))
        assert ViewReader(store, "Slow").fingerprint().digest == digest
    assert twice


def require_nothing_half_made(place: Path, wanted: dict[str, Any]) -> None:
    """What is published is whole: the archive's files, the written streams, and rows up to their position."""
    if (place / "archive" / manifest.name_of(1)).exists():
        for bucket in manifest.load(place / "archive").buckets:
            for file in (bucket.events, bucket.heads):
                assert file is None or archive_files.hash_of(place / "archive" / file.name) == file.sha256
    with tallystick.open(jobs.target(place), readonly=True) as store:
        for info in store.streams():
            found = [event.data["n"] for event in store.stream(info.stream)]
            assert found == wanted["sink"][info.stream][: len(found)]
    with tallystick.open(jobs.log(place), readonly=True) as store:
        for row in (row for row in store.log.views.places() if row.live):
            projection = {"Visits": jobs.Visits(), "Others": jobs.Others()}[row.projection]
            states: dict[str, Any] = {}
            for event in store.events(until=row.position, selection=Selection(types=frozenset(projection.types))):
                states[event.stream] = projection.apply(states.get(event.stream, projection.initial()), event)
            assert dict(ViewReader(store, row.projection).items()) == states
