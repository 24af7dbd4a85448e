"""A node's own head: before it first writes after opening, it asks its peers how much of its feed they have.

A disk that was restored from a backup has less of the node's own feed than the others. To write there would sign a
second event for a place that is taken: a fork, for all to see and for ever. What the peers have more is taken back
first. A peer that does not answer is passed over, so a node that is alone and restored can still do that to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tallystick import errors
from tallystick.community.log import EventLog
from tallystick.community.schedule import run
from tallystick.community.session import SyncSession
from tallystick.community.sync import HttpClient, Peer, SyncClient


class OwnHead:
    """What an `EventLog` is given as `ask`: it asks these peers. `failures` says who did not answer, and why."""

    def __init__(self, peers: Callable[[], Sequence[Peer]], connect: Callable[[Peer], HttpClient]) -> None:
        self._peers = peers
        self._connect = connect
        self.failures: dict[str, str] = {}

    def __call__(self, log: EventLog) -> None:
        """Take back what the peers have of this node's own feed and this disk has not."""
        run(self._ask_all(log, self._peers()))

    async def _ask_all(self, log: EventLog, peers: Iterable[Peer]) -> None:
        for peer in peers:
            try:
                async with self._connect(peer) as client:
                    await SyncClient(log).talk(client, SyncSession(log, peer.key).take_back)
            except (errors.SyncFailed, errors.PeerRefused, errors.BadMessage) as problem:
                self.failures[peer.url] = problem.message
