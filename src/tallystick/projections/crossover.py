"""The size of a log from which Spark folds it faster than one process, including the start of Spark.

Spark uses all cores but starts slowly; one process starts at once and uses one core. They are equally fast where

    process = start + spark / cores    (process and spark: cost per event, times events)

Costs are processor time; the start is wall-clock time until a first job is done. docs/scaling.md says when and where
they were measured.
"""

from __future__ import annotations

import os
from typing import NamedTuple

START_S = 18.0
NEVER = 1 << 62


class Costs(NamedTuple):
    """Processor time per event, in microseconds."""

    process_us: float
    spark_us: float


PYTHON = Costs(3.9, 6.2)
SUMMARY = Costs(3.6, 4.2)


def crossover_events(cores: int, costs: Costs = PYTHON) -> int:
    """The number of events from which Spark is faster with this many cores; `NEVER` if it never is."""
    gain_us = costs.process_us - costs.spark_us / cores
    return round(START_S * 1e6 / gain_us) if gain_us > 0 else NEVER


CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1)
SUMMARY_CROSSOVER_EVENTS = crossover_events(os.cpu_count() or 1, SUMMARY)
