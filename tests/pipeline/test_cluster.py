"""The same jobs on a real cluster: a standalone master and two workers on loopback, as separate processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import tallystick
from tallystick import NewEvent
from tallystick.pipeline.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
JOB = """
import os, sys
from pyspark.sql import functions as F
from tallystick.pipeline import read_events, session
from tallystick.pipeline.archive import archive
from tallystick.pipeline.verifying import verify
spark = session({master!r}, memory="512m", settings={{
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}})
import pyarrow as pa
def where(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({{"pid": [os.getppid()], "home": [os.environ["SPARK_EXECUTOR_DIRS"]]}})
events = read_events(spark, {url!r}, partition_events=20)
places = events.mapInArrow(where, "pid long, home string").distinct().collect()
print("executors", len({{row["home"] for row in places}}))
print("archived", archive(spark, {url!r}, {place!r}, bucket_events=50).events)
print("ok", verify(spark, {url!r}, {place!r}).ok)
spark.stop()
"""


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found: int = taken.getsockname()[1]
        return found


@contextmanager
def process(*arguments: str, log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A process of Spark, ended in the end."""
    with log.open("w") as file:
        started = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments], env=environment, stdout=file, stderr=file
        )
        try:
            yield
        finally:
            started.terminate()
            started.wait(timeout=30)


def wait_for(port: int) -> None:
    """Until somebody listens."""
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("nobody listens")


@pytest.mark.slow
def test_a_cluster_does_the_same_work(tmp_path: Path) -> None:
    """PIPE-09: both workers read and archive and verify; the package reaches them by itself."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        for number in range(200):
            store.append(f"order/o{number % 7}", NewEvent("order.noted", {"n": number}))
    port = free_port()
    without_us = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment = without_us | {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": find_java(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "700m")
    with process(*master, log=tmp_path / "master.log", environment=environment):
        wait_for(port)
        address = f"spark://127.0.0.1:{port}"
        one = (*worker, "--webui-port", "0", "-d", str(tmp_path / "one"), address)
        other = (*worker, "--webui-port", "0", "-d", str(tmp_path / "other"), address)
        with (
            process(*one, log=tmp_path / "one.log", environment=environment),
            process(*other, log=tmp_path / "other.log", environment=environment),
        ):
            code = JOB.format(master=address, url=url, place=str(tmp_path / "archive"))
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False
            )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:3] == ["executors 2", "archived 200", "ok True"], done.stdout
