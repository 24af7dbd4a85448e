"""The memory of a driver after every job over a log: its process, and its JVM's heap after garbage collection.

With `local[2]`, tasks run in the driver's JVM, and its heap holds their sort buffers too. Here the executor is a
process of its own, and so is the one that made the log: what is measured is what the driver keeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.spark import figures
from bench.spark.logs import Log
from tallystick.pipeline import session

MASTER = "local-cluster[1,2,2048]"
_MB = 1 << 20
_CLEANED_SECONDS = 1.0  # a first collection finds what Spark then removes in a thread


def after_all_jobs(log: Log) -> float:
    """MB in a driver that has run every job over this log once; the archive is written again."""
    command = [sys.executable, "-m", "bench.spark.driver_memory", str(log.events), log.url, str(log.place)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def _measured(log: Log) -> float:
    spark = session(MASTER, memory="1g")
    for work in figures.jobs(spark, log).values():
        work()
    found = _memory(spark)
    spark.stop()
    return found


def _memory(spark: SparkSession) -> float:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    time.sleep(_CLEANED_SECONDS)
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(runtime.totalMemory() - runtime.freeMemory() + pages * os.sysconf("SC_PAGE_SIZE")) / _MB


if __name__ == "__main__":
    events, url, place = sys.argv[1:]
    print(_measured(Log(int(events), url, Path(place))))
