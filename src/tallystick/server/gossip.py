"""A community that is served: its peers are answered under /sync/v1, called in the rhythm of its schedule, and told
at once what this node writes.

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
    Fanout,
    HttpClient,
    KeyPair,
    MarketplaceView,
    MembersView,
    OwnHead,
    Peer,
    ReplayEngine,
    SnapshotStore,
    SyncClient,
    SyncServer,
    build_snapshot,
)
from tallystick.community.schedule import Schedule, Ticker
from tallystick.community.sync import local_peers, trusting
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
    tls_ca: str = ""


def directory_of(url: str) -> Path | None:
    """The directory of the community whose log this is; None if it is no community's."""
    engine, _, place = url.partition(":")
    path = Path(place)
    return path.parent if engine == "sqlite" and path.name == LOG and (path.parent / FILE).is_file() else None


class Community:
    """The node of a community, in a service."""

    def __init__(self, store: Store, directory: Path) -> None:
        written = _read(directory)
        self._directory = directory
        self._written = written
        self._keys = KeyPair.load(directory / "key")
        self._snapshots = SnapshotStore(directory / "snapshots", written.community_id)
        base = None if written.base is None else self._snapshots.read(written.base)
        node, id_ = self._keys.node, written.community_id
        self.peers = [Peer(each["url"], each["key"]) for each in written.peers]
        own_head = OwnHead(lambda: self.peers, self._client)
        self.log = EventLog(store, id_, node=node, base=base.base if base is not None else None, ask=own_head)
        self._engine = ReplayEngine(self.log)
        self._engine.register("chat", ChatView(), ChatView.types)
        self._engine.register("marketplace", MarketplaceView(), MarketplaceView.types)
        self._engine.register("members", MembersView(lambda: self.log.replica.roster), MembersView.types)
        if base is not None:
            self._engine.restart(base.states, floor=base.base.floor)
        listed = frozenset(peer.key for peer in self.peers)
        self._app: ASGIApp = SyncServer(self.log, self._keys, listed=listed, snapshots=self._snapshots).app()
        self._rounds: dict[str, dict[str, Any]] = {}
        self._ticker = Ticker(Schedule(), round=self._round, snapshot=self._snapshot)
        self._fanout = Fanout(self.log, lambda: self.peers, self._client)
        self._task: asyncio.Task[None] | None = None

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a peer, which must be allowed to ask by what is on disk now."""
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
        """Call peers from now on, and hand on to them at once what this node writes. Called in the loop's thread."""
        self._fanout.start()
        self._task = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Call nobody any more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self._fanout.stop)

    async def _tick(self) -> None:
        while True:
            with suppress(errors.TallyError, OSError):  # the next round may go well; each peer's failure is kept
                await asyncio.to_thread(self.log.refresh)  # commands beside the service write to this log too
                await self._ticker.tick(datetime.now().astimezone())
            await asyncio.sleep(TICK_SECONDS)

    async def _round(self, local_only: bool) -> None:
        for peer in local_peers(self.peers) if local_only else self.peers:
            self._rounds[peer.key] = {"at": time.time_ns()} | await self._round_with(peer)

    async def _round_with(self, peer: Peer) -> dict[str, Any]:
        try:
            async with self._client(peer) as client:
                result = await SyncClient(self.log).sync_with(client)
        except errors.TallyError as problem:
            return {"failed": problem.message}
        found: dict[str, Any] = msgspec.to_builtins(result)
        return {"result": found}

    def _client(self, peer: Peer) -> HttpClient:
        written = self._written
        invite = (written.invite, written.proof) if written.invite else None
        tls = trusting(written.tls_ca) if written.tls_ca else None
        private = written.allow_private
        return HttpClient(peer, self._keys, written.community_id, allow_private=private, invite=invite, tls=tls)

    async def _snapshot(self) -> None:
        await asyncio.to_thread(self._make_snapshot)

    def _make_snapshot(self) -> None:
        with self.log.lock:
            self._snapshots.write(build_snapshot(self.log, self._engine, self._keys))
        needed = {_read(self._directory).base, self.log.replica.base.lamport} - {None}
        self._snapshots.prune(keep=needed)  # type: ignore[arg-type]  # None was taken out


def _read(directory: Path) -> Written:
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Written)
    except msgspec.MsgspecError as problem:
        raise errors.CommunityMissing(place=str(directory), reason=f"{FILE} is damaged: {problem}") from None
