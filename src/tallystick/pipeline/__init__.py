"""The pipeline: a log as a table of Spark, and jobs over it.

Only this package imports PySpark. `session()` starts a Spark session that is set up for it; `register(spark)` makes
the format `tallystick` known to a session of your own.
"""

from __future__ import annotations

from tallystick.pipeline.source.data_source import register
from tallystick.pipeline.source.events import read_events
from tallystick.pipeline.source.query_plan import hints
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.session import is_running, session

__all__ = ["clear", "hints", "is_running", "read_events", "register", "session"]
