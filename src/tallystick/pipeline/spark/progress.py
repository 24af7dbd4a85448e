"""How far a job is, asked of Spark's status tracker from a thread beside it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

Show = Callable[[int, int], None]
"""Called with how many tasks are done, and of how many that are known so far."""

POLL_SECONDS = 0.2


@contextmanager
def watched(spark: SparkSession, what: str, show: Show | None) -> Iterator[None]:
    """Tell `show` about the tasks of every job that is started inside."""
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
            time.sleep(POLL_SECONDS / 2)  # the tracker hears of the last tasks a little later
        try:
            show(*tasks_of(spark, group))
        except Exception:  # the session may be going away; a bar is not worth a failure
            return


def tasks_of(spark: SparkSession, group: str) -> tuple[int, int]:
    """Tasks done and tasks known of the jobs of a group."""
    tracker = spark.sparkContext.statusTracker()
    done = known = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job is not None else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done, known = done + stage.numCompletedTasks, known + stage.numTasks
    return done, known
