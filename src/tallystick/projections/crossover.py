"""From which size on a log is folded faster on Spark than in one process, what Spark needs to start included.

Spark shares its work among cores, and starts late; one process begins at once and has one. They meet where

    process = start + spark / cores    (each per event, times events)

The costs are processor time, and the start is the clock's until a first job is done. docs/scaling.md says when and
where they were measured.
"""

from __future__ import annotations

import os
from typing import NamedTuple

START_S = 18.0
NEVER = 1 << 62


class Costs(NamedTuple):
    """Processor time of one event more, in microseconds."""

    process_us: float
    spark_us: float


PYTHON = Costs(3.9, 6.2)
SUMMARY = Costs(3.6, 4.2)


def crossover_events(cores: int, costs: Costs = PYTHON) -> int:
    """From how many events on Spark with so many cores is faster; `NEVER` if it is not, however large the log is."""
    gain_us = costs.process_us - costs.spark_us / cores
    return round(START_S * 1e6 / gain_us) if gain_us > 0 else NEVER


CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1)
SUMMARY_CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1, SUMMARY)
