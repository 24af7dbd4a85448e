"""The pipeline: a log as a table of Spark, and jobs over it. Jobs take a DataFrame and give one; the rest is theirs.

Only this package imports PySpark. `session()` starts one that is set up, `register(spark)` is for one of your own.
"""

from __future__ import annotations

from tallystick.pipeline.source.data_source import register
from tallystick.pipeline.source.events import read_events
from tallystick.pipeline.source.query_plan import hints
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.session import is_running, session

__all__ = ["clear", "hints", "is_running", "read_events", "register", "session"]
