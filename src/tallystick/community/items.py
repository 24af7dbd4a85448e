"""The sorted set that two nodes compare: (lamport, link) pairs, with running sums so that any range has its
fingerprint at once.

A fingerprint is the sum of the links as little-endian 256-bit numbers, modulo 2^256, followed by their count as a
varint, hashed with SHA-256; the first 16 bytes of that.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import TypeAlias

from tallystick.community.varint import varint

Item: TypeAlias = "tuple[int, bytes]"

FINGERPRINT_BYTES = 16
LINK_BYTES = 32
_MASK = (1 << 256) - 1


class Items:
    """A sealed set of items: sorted, without duplicates. Sums are computed on first use."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items: list[Item] = sorted(set(items))
        self._sums: list[int] | None = None

    @classmethod
    def ascending(cls, items: list[Item]) -> Items:
        """Items that are known to be sorted and distinct."""
        made = cls(())
        made.items = items
        return made

    def __len__(self) -> int:
        return len(self.items)

    def fingerprint(self, lower: int, upper: int) -> bytes:
        """The fingerprint of the items with lower <= index < upper."""
        sums = self._running_sums()
        total = (sums[upper] - sums[lower]) & _MASK
        return hashlib.sha256(total.to_bytes(32, "little") + varint(upper - lower)).digest()[:FINGERPRINT_BYTES]

    def find(self, bound: Item, start: int = 0) -> int:
        """The index of the first item at or after a bound."""
        return bisect_left(self.items, bound, start)

    def _running_sums(self) -> list[int]:
        if self._sums is None:
            number = int.from_bytes
            self._sums = list(accumulate([number(link, "little") for _, link in self.items], initial=0))
        return self._sums
