"""Rebuilding rows from the first event, in a new epoch. Readers see the live rows until the new ones have caught up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tallystick import errors
from tallystick.projections.live import BATCH_EVENTS, Live
from tallystick.projections.places import PlaceKeeper
from tallystick.store.store import Store
from tallystick.store.views import DISCARD_ROWS, Place, Views

SWITCH_TRIES = 1000


def rebuild(
    store: Store,
    projection: Any,
    *,
    batch_events: int = BATCH_EVENTS,
    progress: Callable[[int], None] = lambda done: None,
) -> Place:
    """Fold the whole log into a new epoch, switch to it, and remove the old one; the place of the new rows.

    The newest of several rebuilds wins. A log that was pruned is refused by name: pruned events cannot be folded again.
    """
    views = store.log.views
    staged = stage(store, projection, views)
    runner = Live(store, projection, batch_events=batch_events, epoch=staged.epoch)
    try:
        return switch(runner, views, progress)
    except errors.HistoryPruned:
        discard(views, staged)
        raise


def stage(store: Store, projection: Any, views: Views) -> Place:
    """Begin a new epoch, and discard the unfinished epochs of earlier rebuilds."""
    keeper = PlaceKeeper(store, projection, views)
    for _ in range(SWITCH_TRIES):
        staged = keeper.new(keeper.next_epoch(), live=False)
        for place in views.places():
            if place.projection == projection.name and not place.live:
                discard(views, place)
        try:
            views.begin(staged)
            return staged
        except errors.ViewMoved:  # another rebuild began at the same moment
            continue
    raise _contended(projection.name)


def switch(runner: Live, views: Views, progress: Callable[[int], None]) -> Place:
    """Catch up with the live rows, then make this epoch the live one."""
    name = runner.projection.name
    for _ in range(SWITCH_TRIES):
        runner.catch_up(progress=progress)
        staged, live = runner.place(), views.place(name)  # raises if a newer rebuild discarded this epoch
        try:
            views.switch(name, staged.epoch, over=live.epoch if live else None)
        except errors.ViewMoved:  # the live rows have advanced, or another rebuild switched them
            continue
        if live is not None:
            discard(views, live)
        return msgspec.structs.replace(staged, live=True)
    raise _contended(name)


def discard(views: Views, place: Place) -> None:
    """Remove an epoch that is not live. After the first step no runner can write to it."""
    while views.discard(place.projection, place.epoch, limit=DISCARD_ROWS) == DISCARD_ROWS:
        pass


def _contended(name: str) -> errors.ViewMoved:
    return errors.ViewMoved(projection=name, epoch=0, expected="to be switched", actual="moving all the time")
