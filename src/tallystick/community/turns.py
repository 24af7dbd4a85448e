"""Turns: how many requests are answered at a time, so that one peer that stalls keeps no other from being answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tallystick import errors

OF_ONE_MAX = 4
COUNT_MAX = 50


class Turns:
    """So many at a time by one peer's word, and so many in all; yet whoever has none under way gets its turn."""

    def __init__(self, *, of_one_max: int = OF_ONE_MAX, count_max: int = COUNT_MAX) -> None:
        self._of_one_max = of_one_max
        self._count_max = count_max
        self._under_way: dict[str, int] = {}

    @contextmanager
    def take(self, peer: str) -> Iterator[None]:
        """One turn, or `Overloaded`."""
        mine = self._under_way.get(peer, 0)
        if mine >= self._of_one_max or (mine and sum(self._under_way.values()) >= self._count_max):
            raise errors.Overloaded(what="requests of this peer")
        self._under_way[peer] = mine + 1
        try:
            yield
        finally:
            self._under_way[peer] -= 1
            if not self._under_way[peer]:
                del self._under_way[peer]
