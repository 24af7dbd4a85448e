"""The ends of recently used streams, bounded in number."""

from __future__ import annotations

from tallystick.store.ledger import Head

HEADS_MAX = 1 << 16


class HeadCache:
    """A bounded dict that forgets the oldest entries. Only the writer puts; anyone may get."""

    def __init__(self, entries_max: int = HEADS_MAX) -> None:
        self._entries_max = entries_max
        self._heads: dict[str, Head] = {}

    def get(self, stream: str) -> Head | None:
        """The head, if it is remembered."""
        return self._heads.get(stream)

    def put(self, heads: dict[str, Head]) -> None:
        """Remember new heads."""
        self._heads |= heads
        while len(self._heads) > self._entries_max:
            del self._heads[next(iter(self._heads))]
