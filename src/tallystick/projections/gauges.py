"""What an operator watches: how far every projection and every consumer of a store is behind."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.projections.lag import Lag, lag_at
from tallystick.store.store import Store
from tallystick.store.tables import live_places


class Gauge(msgspec.Struct, frozen=True):
    """The lag of one `projection` or `consumer`, and the dead letters it has."""

    kind: str
    name: str
    lag: Lag
    dead_letters: int = 0


def gauges(store: Store) -> Iterator[Gauge]:
    """Every projection and every consumer of a store."""
    for place in live_places(store.log.views, store.log.view_tables):
        yield Gauge("projection", place.projection, lag_at(store, place.position))
    parked = store.log.dead_letters.counts().by_consumer
    for name in consumers(store):
        yield Gauge("consumer", name, lag_at(store, _position(store, name)), parked.get(name, 0))


def _position(store: Store, name: str) -> int:
    """Where a consumer is; one whose place is damaged is shown as behind by everything, and says so when it runs."""
    try:
        found = store.log.checkpoints.load(name)
    except errors.CheckpointDamaged:
        return 0
    return found.position if found else 0


def consumers(store: Store) -> list[str]:
    """The names of the consumers that keep a place, or have parked something before they kept one."""
    return sorted(store.log.dead_letters.counts().by_consumer.keys() | store.log.checkpoints.names())
