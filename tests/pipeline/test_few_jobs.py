"""`verify` of a small log runs few Spark jobs, and leaves the user's session as it was."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.verify import verify
from tallystick.testing import upkeep

JOBS_MAX, JOBS_WITH_FACTS_MAX = 6, 10


def jobs(spark: SparkSession) -> int:
    """The number of jobs that this context has started."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def test_a_small_log_is_verified_in_a_handful_of_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """PIPE-03: with an archive, and with control facts, which need a few more jobs."""
    url, before = f"files:{tmp_path}/log", spark.conf.getAll
    with tallystick.open(url) as store:
        for number in range(3):
            store.append(f"order/{number}", [NewEvent("order.placed", {"n": at}) for at in range(100)])
    archive(spark, url, tmp_path / "archive")
    begun = jobs(spark)
    assert verify(spark, url, tmp_path / "archive").ok
    assert 0 < jobs(spark) - begun <= JOBS_MAX
    with tallystick.open(url) as store:
        upkeep.erase(store, "order/1", 5)
    begun = jobs(spark)
    found = verify(spark, url, tmp_path / "archive")
    assert (found.ok, found.erased) == (True, 1)
    assert 0 < jobs(spark) - begun <= JOBS_WITH_FACTS_MAX
    assert spark.conf.getAll == before
