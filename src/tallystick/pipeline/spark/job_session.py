"""A session of our own beside that of the user, for jobs that ask many small questions of a table.

It shares Spark's context, so its cores, files and cached tables. What is set in it does not change the user's session.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

ROWS_A_PART = 100_000
PARTS_MAX = 10_000
_SETTINGS = {
    # With these two on, every shuffle and every small side of a join is a job of its own. A question over a few hundred
    # rows has ten of them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


def beside(spark: SparkSession) -> SparkSession:
    """Such a session. Spark Connect makes none, so there it is the user's."""
    if not isinstance(spark, SparkSession):
        return spark
    made = spark.newSession()
    for name, value in _SETTINGS.items():
        made.conf.set(name, value)
    return made


def size(spark: SparkSession, *, rows: int, cores: int) -> None:
    """Set in how many parts so many rows are shuffled: one as long as they are few."""
    if not isinstance(spark, SparkSession):
        return
    parts = 1 if rows <= ROWS_A_PART else max(-(-rows // ROWS_A_PART), cores)
    spark.conf.set("spark.sql.shuffle.partitions", str(min(parts, PARTS_MAX)))
