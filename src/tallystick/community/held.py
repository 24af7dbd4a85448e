"""Events that cannot be accepted yet: a predecessor, an invitation or earlier lamports are missing.

The pool is bounded per peer, so that no peer can fill it for the others. Events without room are dropped, not refused
permanently: a peer that has them will offer them again.
"""

from __future__ import annotations

from tallystick.community.entry import FeedEntry

HELD_EVENTS_MAX = 1000
HELD_BYTES_MAX = 4 << 20
PEERS_MAX = 64


class Held:
    """The pool of one node."""

    def __init__(self, *, events_max: int = HELD_EVENTS_MAX, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._by_peer: dict[str, dict[bytes, FeedEntry]] = {}
        self._bytes: dict[str, int] = {}

    def put(self, entry: FeedEntry, peer: str) -> bool:
        """Hold an event that this peer sent; False if there is no room for it."""
        pool = self._by_peer.get(peer)
        if pool is None:
            if len(self._by_peer) >= PEERS_MAX:
                return False
            pool = self._by_peer[peer] = {}
        if entry.link in pool:
            return True
        size = self._bytes.get(peer, 0) + len(entry.payload) + len(entry.meta)
        if len(pool) >= self._events_max or size > self._bytes_max:
            return False
        pool[entry.link] = entry
        self._bytes[peer] = size
        return True

    def take_all(self) -> list[tuple[FeedEntry, str]]:
        """Remove and return everything that is held, with the peer that sent it."""
        found = [(entry, peer) for peer, pool in self._by_peer.items() for entry in pool.values()]
        self._by_peer.clear()
        self._bytes.clear()
        return found

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    def highest(self) -> int:
        """The highest lamport that is held; 0 if the pool is empty."""
        return max((entry.lamport for pool in self._by_peer.values() for entry in pool.values()), default=0)
