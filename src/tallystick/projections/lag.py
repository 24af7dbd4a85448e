"""How far a reader is behind the log: in events, and in the age of the oldest event that it has not seen."""

from __future__ import annotations

import msgspec

from tallystick.store.store import Store

_SECOND = 1_000_000_000


class Lag(msgspec.Struct, frozen=True):
    """`events` counts positions, including those of events that a filter leaves out."""

    position: int
    head: int
    seconds: float

    @property
    def events(self) -> int:
        """The number of positions up to the head."""
        return max(0, self.head - self.position)


def lag_at(store: Store, position: int) -> Lag:
    """The lag of a reader that has seen everything up to a position."""
    head = store.head()
    if position >= head:
        return Lag(position, head, 0.0)
    unseen = store.log.read(after=position, limit=1, over_pruned=True, over_holes=True).events
    recorded = store.log.recorded_at(unseen[0].position) if unseen else None
    return Lag(position, head, 0.0 if recorded is None else max(0, store.clock() - recorded) / _SECOND)
