"""A community that is served. Its peers are answered under /sync/v1 and called by its schedule, and they get what this
node writes at once.

A store is a community's if it is `log.db` in a directory that has a `community.json` and a key, as `tally community`
makes them. Peers sign their requests (community/credentials.py), so no token is asked of them.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick import errors
from tallystick.community import (
    EventLog,
    Fanout,
    HttpClient,
    KeyPair,
    OwnHead,
    Peer,
    ReplayEngine,
    SnapshotStore,
    SyncServer,
)
from tallystick.community import config as places
from tallystick.community.settings import settings
from tallystick.community.upkeep import NodeUpkeep
from tallystick.community.views import shipped_views
from tallystick.server import logs
from tallystick.store.store import Store

LOG = "log.db"
TICK_SECONDS = 1.0


def directory_of(url: str) -> Path | None:
    """The directory of the community whose log this is; None if it is not the log of a community."""
    engine, _, place = url.partition(":")
    path = Path(place)
    return path.parent if engine == "sqlite" and path.name == LOG and (path.parent / places.FILE).is_file() else None


class Community:
    """The node of a community that a service runs."""

    def __init__(self, store: Store, directory: Path, *, hour: int | None = None) -> None:
        written = places.read(directory)
        self._keys = KeyPair.load(directory / "key")
        self._snapshots = SnapshotStore(directory / "snapshots", written.community_id)
        base = None if written.base is None else self._snapshots.read(written.base)
        node, id_ = self._keys.node, written.community_id
        self.peers = written.known_peers
        own_head = OwnHead(lambda: self.peers, self._client)
        self._client_of = written.client
        self.log = EventLog(store, id_, node=node, base=base.base if base is not None else None, ask=own_head)
        self._engine = ReplayEngine(self.log)
        self._engine.register_all(shipped_views(lambda: self.log.replica.roster))
        if base is not None:
            self._engine.restart(base.states, floor=base.base.floor)
        listed = frozenset(peer.key for peer in self.peers)
        self._app: ASGIApp = SyncServer(self.log, self._keys, listed=listed, snapshots=self._snapshots).app()
        schedule = settings().schedule(hour=hour)
        self.upkeep = NodeUpkeep(
            self.log, self._engine, self._snapshots, self._keys, directory, schedule=schedule, tell=_tell
        )
        self._fanout = Fanout(self.log, lambda: self.peers, self._client)
        self._task: asyncio.Task[None] | None = None

    def _client(self, peer: Peer) -> HttpClient:
        return self._client_of(self._keys, peer)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a peer. What is on disk now decides whether it may ask."""
        await self._app(scope, receive, send)

    def status(self) -> dict[str, Any]:
        """Members, peers, the last round with each peer, and where this node differs from others."""
        self.log.refresh()
        replica, heads = self.log.replica, self.log.heads()
        results, peers = self.upkeep.rounds.results, self.upkeep.place.known_peers
        return {
            "community": replica.community,
            "node": self._keys.node,
            "members": {key: rank for key, rank in replica.roster.now().items() if rank > 0},
            "events": len(replica.counted),
            "head": replica.head,
            "clock": replica.clock.current,
            "held": len(replica.held),
            "forks": msgspec.to_builtins(heads.forks),
            "disputed_floors": [link.hex() for link in replica.disputed],
            "fingerprint": replica.fingerprint(),
            "emergency": self.upkeep.schedule.emergency,
            "peers": [{"url": each.url, "key": each.key} | results.get(each.key, {}) for each in peers],
        }

    # --- calling peers ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to call peers, and to send them at once what this node writes. Call it in the thread of the loop."""
        self._fanout.start()
        self._task = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Stop calling peers."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.upkeep.stop()
        await asyncio.to_thread(self._fanout.stop)

    async def _tick(self) -> None:
        while True:
            with suppress(errors.TallyError, OSError):  # the next round may succeed; the failure of each peer is kept
                await asyncio.to_thread(self.log.refresh)  # commands in other processes write to this log too
                await self.upkeep.tick(datetime.now().astimezone())
            await asyncio.sleep(TICK_SECONDS)


def _tell(line: str) -> None:
    logs.log(logging.INFO, "the upkeep of the community ran a job", what=line)
