"""From which size on a log is folded faster on Spark than in one process, what Spark needs to start included.

Spark shares its work among cores, and starts late; one process begins at once and has one. They meet where

    process = start + spark / cores    (each per event, times events)

The first two are processor time as `make bench-spark` measures it, the last is the clock's until a first job is done;
docs/scaling.md tells when and where. On two cores they never meet.
"""

from __future__ import annotations

import os

PROCESS_US = 4.5
SPARK_US = 10.3
START_S = 12.0
NEVER = 1 << 62


def crossover_events(cores: int) -> int:
    """From how many events on Spark with so many cores is faster; `NEVER` if it is not, however large the log is."""
    gain_us = PROCESS_US - SPARK_US / cores
    return round(START_S * 1e6 / gain_us) if gain_us > 0 else NEVER


CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1)


def pays_off(events: int) -> bool:
    """Whether a log is large enough that starting Spark on this machine costs less than it saves."""
    return events >= CROSSOVER_EVENTS
