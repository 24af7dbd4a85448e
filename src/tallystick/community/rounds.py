"""Concurrent rounds of gossip, one per peer, so that a slow peer does not delay the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.community import addresses
from tallystick.community.log import EventLog
from tallystick.community.sync import HttpClient, Peer, SyncClient

AT_A_TIME_MAX = 16


class Rounds:
    """The rounds of one log. `results` has the result of each peer's last round, or why it failed."""

    def __init__(self, log: EventLog, connect: Callable[[Peer], HttpClient]) -> None:
        self._log = log
        self._connect = connect
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self.results: dict[str, dict[str, Any]] = {}

    async def begin(self, peers: Sequence[Peer], *, local_only: bool = False) -> None:
        """Start a round with every peer that has none in progress."""
        for peer in peers:
            if peer.key not in self._under_way and len(self._under_way) < AT_A_TIME_MAX:
                task = asyncio.create_task(self._round(peer, local_only=local_only))
                self._under_way[peer.key] = task
                task.add_done_callback(lambda _, key=peer.key: self._under_way.pop(key, None))  # type: ignore[misc]

    async def finish(self) -> None:
        """Wait for the rounds in progress."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Cancel the rounds in progress. What arrived is stored."""
        for task in self._under_way.values():
            task.cancel()
        await self.finish()

    async def _round(self, peer: Peer, *, local_only: bool) -> None:
        if local_only and not await asyncio.to_thread(_is_local, peer):
            return
        began = {"at": time.time_ns()}
        try:
            async with await asyncio.to_thread(self._connect, peer) as client:  # which resolves its name
                result = await SyncClient(self._log).sync_with(client)
            self.results[peer.key] = began | {"result": msgspec.to_builtins(result)}
        except (errors.TallyError, OSError) as problem:
            reason = problem.message if isinstance(problem, errors.TallyError) else str(problem)
            self.results[peer.key] = began | {"failed": reason}


def _is_local(peer: Peer) -> bool:
    """Whether a peer is in this node's own network. A peer with a refused address is not."""
    try:
        return addresses.check(peer.url, allow_private=True).is_local
    except errors.PeerRefused:
        return False
