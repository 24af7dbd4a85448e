"""From which size on a log is folded faster on Spark than in one process, what Spark needs to start included.

Spark shares its work among cores, and starts late; one process begins at once and has one. They meet where

    process = start + spark / cores    (each per event, times events)

The two costs are processor time, the start is the clock's until a first job is done, all of one run of `make
bench-spark`; docs/scaling.md tells when and where.
"""

from __future__ import annotations

import os

PROCESS_US = 3.9
SPARK_US = 6.2
START_S = 18.0
NEVER = 1 << 62


def crossover_events(cores: int) -> int:
    """From how many events on Spark with so many cores is faster; `NEVER` if it is not, however large the log is."""
    gain_us = PROCESS_US - SPARK_US / cores
    return round(START_S * 1e6 / gain_us) if gain_us > 0 else NEVER


CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1)


def pays_off(events: int) -> bool:
    """Whether a log is large enough that starting Spark on this machine costs less than it saves."""
    return events >= CROSSOVER_EVENTS
