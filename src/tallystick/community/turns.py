"""Turns: how many requests are answered at a time, so that one peer that stalls keeps no other from being answered.

A turn ends when its answer was taken. Answers that wait to be taken are bounded in bytes too.
"""

from __future__ import annotations

from tallystick import errors

OF_ONE_MAX = 4
COUNT_MAX = 50
BYTES_MAX = 64 << 20


class Turns:
    """So many at a time by one peer's word, and so many in all; yet whoever has none under way gets its turn."""

    def __init__(self, *, of_one_max: int = OF_ONE_MAX, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._of_one_max = of_one_max
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._under_way: dict[str, int] = {}

    def take(self, peer: str) -> RequestTurn:
        """One turn, or `Overloaded`."""
        mine = self._under_way.get(peer, 0)
        if mine >= self._of_one_max or (mine and sum(self._under_way.values()) >= self._count_max):
            raise errors.Overloaded(what="requests of this peer")
        self._under_way[peer] = mine + 1
        return RequestTurn(self, peer)

    def _hold(self, size: int) -> None:
        if self._bytes and self._bytes + size > self._bytes_max:  # a single one may be larger: a snapshot
            raise errors.Overloaded(what="answers that nobody takes")
        self._bytes += size

    def _end(self, peer: str, size: int) -> None:
        self._bytes -= size
        self._under_way[peer] -= 1
        if not self._under_way[peer]:
            del self._under_way[peer]


class RequestTurn:
    """One request's turn, until it is ended."""

    def __init__(self, turns: Turns, peer: str) -> None:
        self._turns: Turns | None = turns
        self._peer = peer
        self._size = 0

    def hold(self, size: int) -> None:
        """Its answer is there and waits to be taken; `Overloaded` if too much does."""
        assert self._turns is not None
        self._turns._hold(size)
        self._size = size

    def end(self) -> None:
        """Make room. Safe to call twice."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns._end(self._peer, self._size)
