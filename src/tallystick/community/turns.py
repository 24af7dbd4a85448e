"""Turns limit the requests that are answered at once, so that a stalling peer does not block the others.

A turn ends when the peer has read the answer. Answers that wait to be read are also limited in bytes.
"""

from __future__ import annotations

from tallystick import errors

OF_ONE_MAX = 4
COUNT_MAX = 50
BYTES_MAX = 64 << 20


class Turns:
    """Limits requests per voucher and in total. A voucher without a request in progress always gets a turn."""

    def __init__(self, *, of_one_max: int = OF_ONE_MAX, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._of_one_max = of_one_max
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._under_way: dict[str, int] = {}

    def take(self, peer: str) -> RequestTurn:
        """Take a turn, or raise `Overloaded`."""
        mine = self._under_way.get(peer, 0)
        if mine >= self._of_one_max or (mine and sum(self._under_way.values()) >= self._count_max):
            raise errors.Overloaded(what="requests of this peer")
        self._under_way[peer] = mine + 1
        return RequestTurn(self, peer)

    def _hold(self, size: int) -> None:
        if self._bytes and self._bytes + size > self._bytes_max:  # a single answer may be larger: a snapshot
            raise errors.Overloaded(what="answers that were not read")
        self._bytes += size

    def _end(self, peer: str, size: int) -> None:
        self._bytes -= size
        self._under_way[peer] -= 1
        if not self._under_way[peer]:
            del self._under_way[peer]


class RequestTurn:
    """The turn of one request, until it ends."""

    def __init__(self, turns: Turns, peer: str) -> None:
        self._turns: Turns | None = turns
        self._peer = peer
        self._size = 0

    def hold(self, size: int) -> None:
        """Count the answer as waiting to be read. Raises `Overloaded` if too much waits."""
        assert self._turns is not None
        self._turns._hold(size)
        self._size = size

    def end(self) -> None:
        """End the turn. Safe to call twice."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns._end(self._peer, self._size)
