"""Projections that are written as expressions: counts, sums, latest values, sets, largest values, time windows."""

from tallystick.projections.summary.fields import payload
from tallystick.projections.summary.measures import (
    DAY,
    HOUR,
    MINUTE,
    count,
    latest,
    max_,
    max_text,
    min_,
    min_text,
    set_,
    sum_,
    top,
)
from tallystick.projections.summary.model import Summary

__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "Summary",
    "count",
    "latest",
    "max_",
    "max_text",
    "min_",
    "min_text",
    "payload",
    "set_",
    "sum_",
    "top",
]
