"""What an operator watches: how far each projection and each consumer of a store is behind."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.projections.lag import Lag, lag_at
from tallystick.store.store import Store
from tallystick.store.tables import live_places
from tallystick.store.views import Place


class Gauge(msgspec.Struct, frozen=True):
    """The lag of one `projection` or `consumer`, and the number of its dead letters.

    `damaged`: its place or checkpoint is not what was written. Then it is behind by the whole log.
    """

    kind: str
    name: str
    lag: Lag
    dead_letters: int = 0
    damaged: bool = False


def gauges(store: Store) -> Iterator[Gauge]:
    """A gauge for each projection and each consumer of a store."""
    for place in live_places(store.log.views, store.log.view_tables):
        damaged = _is_damaged(store, place)
        lag = lag_at(store, 0 if damaged else place.position)
        yield Gauge("projection", place.projection, lag, damaged=damaged)
    parked = store.log.dead_letters.counts().by_consumer
    for name in consumers(store):
        position = _position(store, name)
        lag = lag_at(store, position or 0)
        yield Gauge("consumer", name, lag, parked.get(name, 0), damaged=position is None)


def _is_damaged(store: Store, place: Place) -> bool:
    try:
        store.log.views.rows(place.projection, epoch=place.epoch, keys=())
        return False
    except errors.RowsDamaged:
        return True


def _position(store: Store, name: str) -> int | None:
    """The checkpoint of a consumer; None if it is damaged."""
    try:
        found = store.log.checkpoints.load(name)
    except errors.CheckpointDamaged:
        return None
    return found.position if found else 0


def consumers(store: Store) -> list[str]:
    """The names of all consumers that have a checkpoint or dead letters."""
    return sorted(store.log.dead_letters.counts().by_consumer.keys() | store.log.checkpoints.names())
