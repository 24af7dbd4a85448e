"""The rank reductions of one node: where it was revoked or demoted, and how far back each one applies.

A reduction applies to everything that its target wrote after the cut. To find the lowest cut after a position quickly,
each kind of reduction is stored as a staircase: positions and cuts both rise, and a step that a later one covers is
left out. An author's event is judged with one bisection, however many reductions there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TypeAlias

from tallystick.community.entry import Key

Place: TypeAlias = "tuple[Key, int]"


class _Stair:
    """The cuts of one kind of reduction, by position."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._cuts: list[int] = []

    def add(self, place: Place, cut: int) -> None:
        at = bisect_left(self._places, place)
        if at < len(self._cuts) and self._cuts[at] <= cut:
            return  # a later one cuts at least as deep
        first = bisect_left(self._cuts, cut, 0, at)
        self._places[first:at] = [place]
        self._cuts[first:at] = [cut]

    def reaches(self, place: Place, seq: int) -> bool:
        """Whether a reduction after this position cuts off this seq."""
        at = bisect_right(self._places, place)
        return at < len(self._cuts) and self._cuts[at] < seq


class RankReductions:
    """All rank reductions of one node."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._stairs: dict[tuple[int, int], _Stair] = {}  # by the actor's rank and the remaining rank

    def add(self, place: Place, *, by: int, rank: int, cut: int) -> None:
        """Add a reduction at a position, by an actor with a rank, to a rank."""
        insort(self._keys, place[0])
        self._stairs.setdefault((by, rank), _Stair()).add(place, cut)

    def lowered(self, rank: int, place: Place, seq: int) -> int:
        """The rank that remains at this position and seq, after every later reduction by a higher rank."""
        reaching = [left for (by, left), stair in self._stairs.items() if by > rank and stair.reaches(place, seq)]
        return min([rank, *reaching])

    def between(self, first: Key, last: Key) -> bool:
        """Whether there is a reduction between two keys."""
        at = bisect_right(self._keys, first)
        return at < len(self._keys) and self._keys[at] < last
