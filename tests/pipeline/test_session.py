"""The session and its progress."""

from __future__ import annotations

import os
import time

import pytest
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline.spark.progress import watched
from tallystick.pipeline.spark.session import session


def test_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-09: with SPARK_REMOTE there would be no classic session; it is refused before anything is started."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(errors.InvalidValue, match="SPARK_REMOTE"):
        session()


def test_a_session_leaves_the_surroundings_as_they_were(spark: SparkSession) -> None:
    """PIPE-09: a second call returns the running session, and variables of this process are restored."""
    before = dict(os.environ)
    assert session("local[2]").sparkContext is spark.sparkContext
    assert dict(os.environ) == before


def test_a_job_shows_its_tasks(spark: SparkSession) -> None:
    """PIPE-09: the number of tasks done is reported, up to all of them."""
    seen: list[tuple[int, int]] = []

    def slow(batches):  # type: ignore[no-untyped-def]
        time.sleep(0.6)
        yield from batches

    with watched(spark, "sleeping", lambda done, known: seen.append((done, known))):
        spark.range(0, 4, numPartitions=4).mapInArrow(slow, "id long").count()
    assert max(known for _, known in seen) >= 4
    assert sorted(done for done, _ in seen) == [done for done, _ in seen]
    assert any(done > 0 for done, _ in seen)
