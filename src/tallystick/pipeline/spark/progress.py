"""The progress of a job, from Spark's status tracker, polled by a thread."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

Show = Callable[[int, int], None]
"""Called with the number of tasks done, and of tasks known so far."""

POLL_SECONDS = 0.2


@contextmanager
def watched(spark: SparkSession, what: str, show: Show | None) -> Iterator[None]:
    """Report the tasks of every job that is started inside to `show`."""
    if show is None or not isinstance(spark, SparkSession):  # Spark Connect has no status tracker
        yield
        return
    group = f"tallystick-{uuid.uuid4()}"
    spark.sparkContext.setJobGroup(group, what)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, group, over, show), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _watch(spark: SparkSession, group: str, over: threading.Event, show: Show) -> None:
    is_over = False
    while not is_over:
        is_over = over.wait(POLL_SECONDS)
        if is_over:
            time.sleep(POLL_SECONDS / 2)  # the tracker lists the last tasks a little later
        try:
            show(*tasks_of(spark, group))
        except Exception:  # the session may be stopping; a progress bar must not fail the job
            return


def tasks_of(spark: SparkSession, group: str) -> tuple[int, int]:
    """The number of tasks done, and of tasks known, in the jobs of a group."""
    tracker = spark.sparkContext.statusTracker()
    done = known = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job is not None else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done, known = done + stage.numCompletedTasks, known + stage.numTasks
    return done, known
