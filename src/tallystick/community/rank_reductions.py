"""The lowerings of one node: where it was revoked or demoted, and how far back each of them reaches.

A lowering reaches back over what its target wrote behind the cut. To find the deepest cut behind a place at once, each
kind of lowering is kept as a stair: places and cuts both rise, and a step that a later one covers is left out. So an
author's events are judged in the time of a bisection, however many lowerings there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TypeAlias

from tallystick.community.entry import Key

Place: TypeAlias = "tuple[Key, int]"


class _Stair:
    """The cuts of one kind of lowering, by place."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._cuts: list[int] = []

    def add(self, place: Place, cut: int) -> None:
        at = bisect_left(self._places, place)
        if at < len(self._cuts) and self._cuts[at] <= cut:
            return  # a later one cuts as deep
        first = bisect_left(self._cuts, cut, 0, at)
        self._places[first:at] = [place]
        self._cuts[first:at] = [cut]

    def reaches(self, place: Place, seq: int) -> bool:
        """Whether a lowering behind this place cuts off this seq."""
        at = bisect_right(self._places, place)
        return at < len(self._cuts) and self._cuts[at] < seq


class RankReductions:
    """All of one node."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._stairs: dict[tuple[int, int], _Stair] = {}  # by the actor's rank and the rank that is left

    def add(self, place: Place, *, by: int, rank: int, cut: int) -> None:
        """A lowering at a place, by an actor of a rank, to a rank."""
        insort(self._keys, place[0])
        self._stairs.setdefault((by, rank), _Stair()).add(place, cut)

    def lowered(self, rank: int, place: Place, seq: int) -> int:
        """What a rank is worth at this place and seq, after every later lowering by somebody who ranks above it."""
        reaching = [left for (by, left), stair in self._stairs.items() if by > rank and stair.reaches(place, seq)]
        return min([rank, *reaching])

    def between(self, first: Key, last: Key) -> bool:
        """Whether there is one between two keys."""
        at = bisect_right(self._keys, first)
        return at < len(self._keys) and self._keys[at] < last
