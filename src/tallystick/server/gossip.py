"""A community that is served: its peers are answered under /sync/v1, and called in the rhythm of its schedule.

A store is a community's if it is `log.db` in a directory that has a `community.json` and a key, as `tally community`
makes them. Peers sign their requests (community/credentials.py), so no token is asked of them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick import errors
from tallystick.community import (
    ChatView,
    EventLog,
    HttpClient,
    KeyPair,
    MarketplaceView,
    MembersView,
    Peer,
    ReplayEngine,
    SnapshotStore,
    SyncClient,
    SyncServer,
    build_snapshot,
)
from tallystick.community.schedule import Schedule, Ticker
from tallystick.community.sync import local_peers
from tallystick.store.store import Store

FILE = "community.json"
LOG = "log.db"
TICK_SECONDS = 1.0


class Written(msgspec.Struct):
    """What is written down of a community beside its log, as far as serving it needs."""

    community_id: str
    peers: list[dict[str, str]] = []
    allow_private: bool = False
    invite: str = ""
    proof: str = ""
    base: int | None = None


def directory_of(url: str) -> Path | None:
    """The directory of the community whose log this is; None if it is no community's."""
    engine, _, place = url.partition(":")
    path = Path(place)
    return path.parent if engine == "sqlite" and path.name == LOG and (path.parent / FILE).is_file() else None


class Community:
    """The node of a community, in a service."""

    def __init__(self, store: Store, directory: Path) -> None:
        written = _read(directory)
        self._written = written
        self._keys = KeyPair.load(directory / "key")
        self._snapshots = SnapshotStore(directory / "snapshots", written.community_id)
        base = None if written.base is None else self._snapshots.read(written.base)
        node, id_ = self._keys.node, written.community_id
        self.log = EventLog(store, id_, node=node, base=base.base if base is not None else None)
        self._engine = ReplayEngine(self.log)
        self._engine.register("chat", ChatView(), ChatView.types)
        self._engine.register("marketplace", MarketplaceView(), MarketplaceView.types)
        self._engine.register("members", MembersView(lambda: self.log.replica.roster), MembersView.types)
        if base is not None:
            self._engine.restart(base.states, floor=base.base.floor)
        self.peers = [Peer(each["url"], each["key"]) for each in written.peers]
        listed = frozenset(peer.key for peer in self.peers)
        self._app: ASGIApp = SyncServer(self.log, self._keys, listed=listed, snapshots=self._snapshots).app()
        self._rounds: dict[str, dict[str, Any]] = {}
        self._ticker = Ticker(Schedule(), round=self._round, snapshot=self._snapshot)
        self._task: asyncio.Task[None] | None = None

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a peer. Who was invited by another process of this node, or shut out, counts at once."""
        await asyncio.to_thread(self.log.refresh)
        await self._app(scope, receive, send)

    def told(self) -> dict[str, Any]:
        """How the community stands here: members, peers, the last round with each, and in what it differs."""
        self.log.refresh()
        replica, heads = self.log.replica, self.log.heads()
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
            "peers": [{"url": peer.url, "key": peer.key} | self._rounds.get(peer.key, {}) for peer in self.peers],
        }

    # --- rounds ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Call peers from now on. Called in the loop's thread."""
        self._task = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Call nobody any more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _tick(self) -> None:
        while True:
            with suppress(errors.TallyError, OSError):  # the next round may go well; each peer's failure is kept
                await self._ticker.tick(datetime.now().astimezone())
            await asyncio.sleep(TICK_SECONDS)

    async def _round(self, local_only: bool) -> None:
        for peer in local_peers(self.peers) if local_only else self.peers:
            self._rounds[peer.key] = {"at": time.time_ns()} | await self._round_with(peer)

    async def _round_with(self, peer: Peer) -> dict[str, Any]:
        invite = (self._written.invite, self._written.proof) if self._written.invite else None
        client = HttpClient(
            peer, self._keys, self._written.community_id, allow_private=self._written.allow_private, invite=invite
        )
        try:
            async with client:
                result = await SyncClient(self.log).sync_with(client)
        except (errors.SyncFailed, errors.PeerRefused, errors.BadMessage) as problem:
            return {"failed": problem.message}
        found: dict[str, Any] = msgspec.to_builtins(result)
        return {"result": found}

    async def _snapshot(self) -> None:
        await asyncio.to_thread(self._make_snapshot)

    def _make_snapshot(self) -> None:
        with self.log.lock:
            self._snapshots.write(build_snapshot(self.log, self._engine, self._keys))
        self._snapshots.prune()


def _read(directory: Path) -> Written:
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Written)
    except msgspec.MsgspecError as problem:
        raise errors.CommunityMissing(place=str(directory), reason=f"{FILE} is damaged: {problem}") from None
