"""A virtual network. It drops, duplicates, delays and reorders messages, and can be cut in one direction or both."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

Action = Callable[[], None]


class Network:
    """Messages in flight, under one clock. `loss` and `doubles` are probabilities; `delay` is the longest, in ticks."""

    def __init__(self, random: Random, *, loss: float = 0.15, doubles: float = 0.1, delay: int = 20) -> None:
        self._random = random
        self.loss, self.doubles, self.delay = loss, doubles, delay
        self.now = 0
        self._count = 0
        self._flying: list[tuple[int, int, int, int, Action]] = []
        self._cuts: set[tuple[int, int]] = set()

    def cut(self, one: int, other: int, *, both_ways: bool) -> None:
        """Stop messages from one node to the other."""
        self._cuts.add((one, other))
        if both_ways:
            self._cuts.add((other, one))

    def heal(self) -> None:
        """Open every connection again."""
        self._cuts.clear()

    def send(self, source: int, target: int, deliver: Action) -> None:
        """Send a message. It may be lost or arrive twice."""
        copies = 1 + (self._random.random() < self.doubles)
        for _ in range(copies):
            if self._random.random() >= self.loss:
                self._count += 1
                when = self.now + 1 + self._random.randrange(self.delay)
                heapq.heappush(self._flying, (when, self._count, source, target, deliver))

    def advance(self, ticks: int) -> None:
        """Advance the clock and deliver the messages that arrive."""
        until = self.now + ticks
        while self._flying and self._flying[0][0] <= until:
            self.now, _, source, target, deliver = heapq.heappop(self._flying)
            if (source, target) not in self._cuts:
                deliver()
        self.now = until
