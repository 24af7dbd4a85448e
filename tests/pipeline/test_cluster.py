"""Every job on a real cluster: a standalone master and two workers on loopback, as separate processes.

`cluster_jobs.py` has the jobs. Executors are killed while they run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

from tallystick.pipeline.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
SCRIPT = Path(__file__).with_name("cluster_jobs.py")
_spec = importlib.util.spec_from_file_location("cluster_jobs", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
jobs = importlib.util.module_from_spec(_spec)
sys.modules["cluster_jobs"] = jobs
_spec.loader.exec_module(jobs)


class Cluster(NamedTuple):
    """Where the master is, and the processes of the workers."""

    master: str
    environment: dict[str, str]

    def start(self, place: Path, kill: str, *names: str) -> subprocess.Popen[str]:
        """A driver that runs these jobs, the leader of a group of its own."""
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), self.master, str(place), kill, *names],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, place: Path, kill: str) -> tuple[dict[str, Any], list[str]]:
        """What each job said, and in which of them an executor was killed."""
        driver = self.start(place, kill, *jobs.JOBS)
        try:
            out, err = driver.communicate(timeout=1500)
        finally:
            end(driver)
        assert driver.returncode == 0, err[-3000:]
        said = [line.split(" ", 2) for line in out.splitlines() if line.startswith("said ")]
        killed = [line.split(" ")[1] for line in out.splitlines() if line.startswith("killed ")]
        return {name: json.loads(text) for _, name, text in said}, killed


def end(driver: subprocess.Popen[str]) -> None:
    """End a driver with its JVM."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found: int = taken.getsockname()[1]
        return found


@contextmanager
def process(*arguments: str, log: Path, environment: dict[str, str]) -> Iterator[int]:
    """A process of Spark, ended in the end; its id."""
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
    """A master and two workers, which do not have our package on their path."""
    place, port = tmp_path_factory.mktemp("cluster"), free_port()
    without_us = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment = without_us | {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": find_java(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "700m")
    with ExitStack() as stack:
        stack.enter_context(process(*master, log=place / "master.log", environment=environment))
        wait_for(port)
        address, workers = f"spark://127.0.0.1:{port}", []
        for name in ("one", "other"):
            arguments = (*worker, "--webui-port", "0", "-d", str(place / name), address)
            workers.append(stack.enter_context(process(*arguments, log=place / f"{name}.log", environment=environment)))
        ours = {"WORKERS": ",".join(map(str, workers)), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        yield Cluster(address, environment | ours)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_job_survives_a_killed_executor(cluster: Cluster, tmp_path: Path) -> None:
    """PIPE-09: each job says what the store says, although executors are killed meanwhile."""
    jobs.fill(tmp_path)
    wanted = jobs.expected(tmp_path)
    said, killed = cluster.run(tmp_path, "kill")
    assert {name: said[name] == wanted[name] for name in jobs.JOBS} == dict.fromkeys(jobs.JOBS, True)
    assert len(killed) >= len(jobs.JOBS) - 1, killed  # one may be over before Spark says that it has begun
