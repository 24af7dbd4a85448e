"""When rounds and snapshots are due, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tallystick.community.schedule import Schedule, Ticker
from tallystick.community.sync import Peer, local_peers
from tallystick.testing.community.people import keys

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Told:
    """What a ticker did, and when."""

    def __init__(self, schedule: Schedule) -> None:
        self.now = NOON
        self.rounds: list[tuple[float, bool]] = []
        self.snapshots: list[datetime] = []
        self.ticker = Ticker(schedule, round=self.round, snapshot=self.snapshot)

    async def round(self, local_only: bool) -> None:
        self.rounds.append(((self.now - NOON).total_seconds(), local_only))

    async def snapshot(self) -> None:
        self.snapshots.append(self.now)

    def run(self, seconds: int, step: int = 10) -> None:
        for _ in range(seconds // step):
            asyncio.run(self.ticker.tick(self.now))
            self.now += timedelta(seconds=step)


def test_rounds_are_due_every_five_minutes() -> None:
    """COM-09: every 300 seconds with all peers."""
    told = Told(Schedule())
    told.run(1000)
    assert told.rounds == [(0, False), (300, False), (600, False), (900, False)]


def test_in_an_emergency_rounds_are_frequent_and_local() -> None:
    """COM-09: every 30 seconds, with local peers alone."""
    told = Told(Schedule(emergency=True))
    told.run(100)
    assert told.rounds == [(0, True), (30, True), (60, True), (90, True)]


def test_snapshots_are_due_at_three_at_night() -> None:
    """COM-08: once a day at 03:00 local, or at the hour that is set."""
    told = Told(Schedule(interval_s=1e9))
    told.run(2 * 86_400, step=600)
    assert [(at.day, at.hour) for at in told.snapshots] == [(2, 3), (3, 3)]
    assert Schedule(snapshot_hour=13).next_snapshot(NOON).hour == 13


def test_local_peers_are_those_in_private_networks() -> None:
    """COM-09: in an emergency only these are called."""
    near, far = Peer("http://192.168.1.5:7001", keys(1).node), Peer("https://8.8.8.8", keys(2).node)
    assert local_peers([near, far]) == [near]
