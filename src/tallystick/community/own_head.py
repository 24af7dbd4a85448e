"""A node's own head: before its first write after opening, a node asks its peers how much of its feed they have.

A disk that was restored from a backup has less of the node's own feed than its peers have. A write there would sign a
second event for an existing seq: a permanent, public fork. So the missing part is fetched from the peers first. A peer
that does not answer is skipped, so a restored node without reachable peers can still fork itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tallystick import errors
from tallystick.community.log import EventLog
from tallystick.community.schedule import run
from tallystick.community.session import SyncSession
from tallystick.community.sync import HttpClient, Peer, SyncClient


class OwnHead:
    """Pass it to an `EventLog` as `ask`. `failures` names the peers that did not answer, and why."""

    def __init__(self, peers: Callable[[], Sequence[Peer]], connect: Callable[[Peer], HttpClient]) -> None:
        self._peers = peers
        self._connect = connect
        self.failures: dict[str, str] = {}

    def __call__(self, log: EventLog) -> None:
        """Fetch the part of this node's own feed that the peers have and this disk lacks."""
        run(self._ask_all(log, self._peers()))

    async def _ask_all(self, log: EventLog, peers: Iterable[Peer]) -> None:
        for peer in peers:
            try:
                async with self._connect(peer) as client:
                    await SyncClient(log).talk(client, SyncSession(log, peer.key).take_back)
            except (errors.SyncFailed, errors.PeerRefused, errors.BadMessage) as problem:
                self.failures[peer.url] = problem.message
