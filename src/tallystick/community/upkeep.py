"""Automatic work of a node that listens: rounds of gossip, and once a day a snapshot, floors and retention.

`tally community sync --listen` and `tally serve` run it. The time of the daily work is stored in the directory: a node
that is off at that hour does the work when it starts again.

Floors advance no faster than events may be removed. A founder declares the next floor, and an admin proposes it, when
there is no floor yet, or when the events under the last one have reached their age and were removed here. An earlier
floor would restart the wait. So if peers keep up, events far enough behind the head are gone after twice the days.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tallystick import errors
from tallystick.community import config, proposals, retention
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.replay import ReplayEngine
from tallystick.community.rounds import Rounds
from tallystick.community.schedule import Schedule, Ticker
from tallystick.community.settings import settings
from tallystick.community.snapshot import Snapshot, SnapshotStore, build_snapshot, declare_floor
from tallystick.community.types import ADMIN

Tell = Callable[[str], None]


class NodeUpkeep:
    """The upkeep of one node, whose log is in a directory. `tell` is called with what was done and what failed."""

    def __init__(
        self,
        log: EventLog,
        engine: ReplayEngine,
        files: SnapshotStore,
        keys: KeyPair,
        directory: Path,
        *,
        schedule: Schedule | None = None,
        tell: Tell = lambda line: None,
    ) -> None:
        self._log, self._engine, self._files, self._keys = log, engine, files, keys
        self._directory = directory
        self._tell = tell
        self.settings = settings()
        self.schedule = schedule or self.settings.schedule()
        self._always_emergency = self.schedule.emergency
        self.place = config.read(directory)
        self.rounds = Rounds(log, lambda peer: self.place.client(keys, peer))
        self._ticker = Ticker(
            self.schedule, round=self._round, snapshot=self._daily, directory=directory, failed=self._failed
        )

    async def tick(self, now: datetime) -> None:
        """Do what is due, with the current configuration."""
        try:
            self.place = await asyncio.to_thread(config.read, self._directory)
        except (errors.CommunityMissing, OSError) as problem:
            self._failed(problem)
        self.schedule.emergency = self._always_emergency or self.place.emergency
        await self._ticker.tick(now)

    async def stop(self) -> None:
        """Cancel the work in progress."""
        await self.rounds.stop()

    async def _round(self, local_only: bool) -> None:
        await self.rounds.begin(self.place.known_peers, local_only=local_only)

    # --- once a day ------------------------------------------------------------------------------------------------

    async def _daily(self) -> None:
        await asyncio.to_thread(self.daily)

    def daily(self, *, days: float | None = None) -> None:
        """Make the snapshot, remove what has reached its age, and last declare or propose the next floor."""
        days = self.settings.retention_days if days is None else days
        made = self.snapshot()
        self.retain(days=days)
        self._settle(made, days)

    def snapshot(self) -> Snapshot:
        """Write a snapshot of the current state. If it equals the last one, that one keeps its age, which retention
        uses.
        """
        with self._log.lock:
            self._log.refresh()
            made = build_snapshot(self._log, self._engine, self._keys)
            kept = retention.snapshot_at(self._files, made.lamport, made.base.floor)
            if kept is None or kept.signer != made.signer:
                self._files.write(made, at_ns=self._log.clock())
        return made

    def _settle(self, made: Snapshot, days: float) -> None:
        """Declare or propose the next floor, depending on this node's rank; endorse proposals of admins."""
        log, keys = self._log, self._keys
        if keys.node == log.community:
            proposals.endorse_floors(log, keys)
            if self._wants_floor(made, days):
                declare_floor(log, made, keys)
                self._tell(f"declared a floor at lamport {made.lamport}")
        elif self._is_admin() and self._wants_floor(made, days) and not proposals.is_proposed(log):
            proposals.propose_floor(log, made, keys)
            self._tell(f"proposed a floor at lamport {made.lamport}")

    def _is_admin(self) -> bool:
        return self._log.replica.roster.now().get(self._keys.node, 0) >= ADMIN

    def _wants_floor(self, made: Snapshot, days: float) -> bool:
        """Whether the next floor is due: it covers something new, and what the last one covers was removed."""
        base = self._log.replica.base
        if made.after != base.floor or made.lamport <= base.lamport:
            return False  # it is older than the current floor, or covers nothing new
        if not base.floor:
            return True
        had_its_days = retention.age_ns(self._log, self._files) >= days * retention.DAY_NS
        return had_its_days and self.place.base == base.lamport

    def retain(self, *, days: float | None = None) -> None:
        """Remove what a floor has covered long enough, and all but the newest snapshots."""
        days = self.settings.retention_days if days is None else days
        log, peers = self._log, [peer.key for peer in self.place.known_peers]
        due = retention.due(log, self._engine, self._files, self._keys, days=days, peers=peers)
        if due is not None:
            self._begin_at(due.snapshot.lamport)
            for stream in retention.prune(log, due):
                self._tell(f"{stream.stream}: {stream.why_not or f'{stream.count} events pruned'}")
        needed = {self.place.base, log.replica.base.lamport} - {None}
        self._files.prune(self.settings.snapshots_keep, keep=needed)  # type: ignore[arg-type]  # None was taken out

    def _begin_at(self, lamport: int) -> None:
        """Store where the log starts before anything is removed: from now on it is opened there."""
        written = config.read(self._directory)
        if written.base != lamport:
            written.base = lamport
            config.save(self._directory, written)
        self.place = written

    def _failed(self, problem: Exception) -> None:
        self._tell(problem.message if isinstance(problem, errors.TallyError) else str(problem))
