"""Settings of a community's node, each from an environment variable: how far behind the head a snapshot ends, when it
is made, how often peers are called, and when events and snapshots are removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from tallystick.community.schedule import EMERGENCY_INTERVAL_S, INTERVAL_S, SNAPSHOT_HOUR, Schedule
from tallystick.community.types import EVENT_LOG_RETENTION_DAYS, SNAPSHOT_LAG_LAMPORT, SNAPSHOTS_KEPT
from tallystick.store import environment as variables

PREFIX = "TALLY_COMMUNITY_"
DAYS_MAX = 36_500


class NodeSettings(msgspec.Struct, frozen=True):
    """The settings of one node."""

    snapshot_lag: int
    snapshot_hour: int
    snapshots_keep: int
    retention_days: float
    interval_seconds: float
    emergency_seconds: float

    def schedule(self, *, hour: int | None = None, every: float | None = None, emergency: bool = False) -> Schedule:
        """The schedule of rounds and snapshots. Arguments override the settings."""
        return Schedule(
            interval_s=every or self.interval_seconds,
            emergency_interval_s=self.emergency_seconds,
            snapshot_hour=self.snapshot_hour if hour is None else hour,
            emergency=emergency,
        )


def settings(environment: Mapping[str, str] = os.environ) -> NodeSettings:
    """The settings from the environment, with defaults for the rest."""

    def number(name: str, default: float, *, least: float, most: float) -> float:
        return variables.number(PREFIX + name, default, least=least, most=most, environment=environment)

    return NodeSettings(
        snapshot_lag=int(number("SNAPSHOT_LAG", SNAPSHOT_LAG_LAMPORT, least=0, most=2**53)),
        snapshot_hour=int(number("SNAPSHOT_HOUR", SNAPSHOT_HOUR, least=0, most=23)),
        snapshots_keep=int(number("SNAPSHOTS_KEEP", SNAPSHOTS_KEPT, least=1, most=10_000)),
        retention_days=number("RETENTION_DAYS", EVENT_LOG_RETENTION_DAYS, least=0, most=DAYS_MAX),
        interval_seconds=number("INTERVAL_SECONDS", INTERVAL_S, least=1, most=86_400),
        emergency_seconds=number("EMERGENCY_SECONDS", EMERGENCY_INTERVAL_S, least=1, most=86_400),
    )
