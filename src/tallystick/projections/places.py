"""The places of a projection: the position of its rows, checked for the same history and definition."""

from __future__ import annotations

import secrets
from typing import Any

from tallystick import errors
from tallystick.projections import model
from tallystick.store import capabilities
from tallystick.store.store import Store
from tallystick.store.views import Definition, Place, Views

_DROPS_BITS = 48


def require_order(store: Store) -> None:
    """Refuse an engine whose positions are not the order of commits: a checkpoint would miss events."""
    if capabilities.GLOBAL_ORDER not in store.log.capabilities:
        raise errors.UnsupportedCapability(engine=store.log.engine, capability=capabilities.GLOBAL_ORDER)


class PlaceKeeper:
    """Creates and checks the places of one projection in one store."""

    def __init__(self, store: Store, projection: Any, views: Views) -> None:
        model.check(projection)
        self._store = store
        self._views = views
        self._name = projection.name
        self.definition = model.definition(projection, store.catalog)
        self._trusted: set[int] = set()

    def live(self) -> Place:
        """The live place, created if there is none. Rows of another history or definition are refused by name."""
        place = self._views.place(self._name)
        if place is None:
            place = self.new(self.next_epoch(), live=True)
            try:
                self._views.begin(place)
            except errors.ViewMoved:  # another runner was first
                found = self._views.place(self._name)
                if found is None:
                    raise
                place = found
        return self.checked(place)

    def next_epoch(self) -> int:
        """The number for a new epoch."""
        return max((place.epoch for place in self._views.places() if place.projection == self._name), default=0) + 1

    def new(self, epoch: int, *, live: bool) -> Place:
        """A place at the beginning of the log. `drops` starts at random, since an epoch number may be used again."""
        return Place(
            projection=self._name,
            epoch=epoch,
            live=live,
            definition=self.definition.text,
            store_id=self._store.log.store_id,
            drops=secrets.randbits(_DROPS_BITS),
        )

    def checked(self, place: Place) -> Place:
        """The place, if a runner may continue from it. The history is checked once per epoch."""
        if place.definition != self.definition.text:
            raise errors.ProjectionChanged(name=self._name, reason=difference(place.defined, self.definition))
        if place.epoch not in self._trusted:
            self._store.resume(place.checkpoint)
            self._trusted.add(place.epoch)
        return place


def difference(stored: Definition, given: Definition) -> str:
    """How two definitions differ, in words."""
    changed = [name for name in Definition.__struct_fields__ if getattr(stored, name) != getattr(given, name)]
    shown = [f"{name} {getattr(stored, name)!r}, now {getattr(given, name)!r}" for name in changed]
    return "; ".join(shown)
