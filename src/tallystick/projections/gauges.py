"""What an operator watches: how far every projection and every consumer of a store is behind."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.projections.lag import Lag, lag_at
from tallystick.store.store import Store
from tallystick.store.tables import live_places

LETTERS = 1000  # counted at a time


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
    for name in store.log.checkpoints.names():
        found = store.log.checkpoints.load(name)
        if found is not None:
            yield Gauge("consumer", name, lag_at(store, found.position), _letters(store, name))


def _letters(store: Store, consumer: str) -> int:
    """How many dead letters a consumer has."""
    count = after = 0
    while page := store.log.dead_letters.letters(consumer, after=after, limit=LETTERS):
        count += len(page)
        after = page[-1].position
    return count
