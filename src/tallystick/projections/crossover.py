"""From which size on a log is folded faster on Spark than in one process, what Spark needs to start included."""

from __future__ import annotations

CROSSOVER_EVENTS = 1_500_000


def pays_off(events: int) -> bool:
    """Whether a log is large enough that starting Spark costs less than it saves: measured, see docs/scaling.md."""
    return events >= CROSSOVER_EVENTS
