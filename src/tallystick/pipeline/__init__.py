"""The pipeline: a log as a table of Spark, and jobs over it. Jobs take a DataFrame and give one; the rest is theirs.

Only this package imports PySpark. `session()` starts one that is set up, `register(spark)` is for one of your own.
"""

from __future__ import annotations

from tallystick.pipeline.failures import clear
from tallystick.pipeline.narrowing import hints
from tallystick.pipeline.reading import read_events
from tallystick.pipeline.session import is_running, session
from tallystick.pipeline.source import register

__all__ = ["clear", "hints", "is_running", "read_events", "register", "session"]
