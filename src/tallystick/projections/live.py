"""Keeping a projection current: catch up from its checkpoint, batch after batch, then follow the log.

Each batch is one transaction that checks the position of the rows. After a kill, a batch has happened or has not. If
two runners try the same batch, one succeeds and the other reads the position again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick import errors
from tallystick.projections import model
from tallystick.projections.lag import Lag, lag_at
from tallystick.projections.places import PlaceKeeper, require_order
from tallystick.projections.row_folder import RowFolder
from tallystick.store import cursors
from tallystick.store.page import Page
from tallystick.store.selection import Selection
from tallystick.store.store import Store
from tallystick.store.views import ROWS, Place, Views

BATCH_EVENTS = 5000
WAIT_SECONDS = 1.0


class Live:
    """The live runner of one projection. Several runners may run at a time; together they do the work once."""

    def __init__(
        self,
        store: Store,
        projection: model.Projection,
        *,
        batch_events: int = BATCH_EVENTS,
        views: Views | None = None,
        epoch: int | None = None,
    ) -> None:
        require_order(store)
        self.store = store
        self.projection = projection
        self._views = views or store.log.views
        self._keeper = PlaceKeeper(store, projection, self._views)
        self._require_rows()
        self._folder = RowFolder(store, projection)
        self._selection = Selection(types=frozenset(projection.types))
        self._batch_events = batch_events
        self._epoch = epoch

    def _require_rows(self) -> None:
        if self.projection.kind != ROWS:
            reason = "it owns SQL tables, and is run by TableRunner"
            raise errors.ProjectionInvalid(name=self.projection.name, reason=reason)

    def place(self) -> Place:
        """The place of the rows: of the live epoch, or of the epoch that this runner was made for."""
        if self._epoch is None:
            return self._keeper.live()
        place = self._views.rows(self.projection.name, epoch=self._epoch, keys=()).place
        if place is None or place.discarded:
            name = self.projection.name
            raise errors.ViewMoved(projection=name, epoch=self._epoch, expected="there", actual="discarded")
        return self._keeper.checked(place)

    def step(self, *, until: int | None = None) -> int:
        """Apply one batch; the position of the rows after it. `ViewMoved` if another runner was faster."""
        place = self.place()
        if keys := self._views.dropped(place.projection, place.epoch, limit=self._batch_events):
            rows = self._folder.refold(keys, until=place.position)
            self._views.write(place, rows, previous=place.position)
        page = self.store.read(after=place.position, until=until, selection=self._selection, limit=self._batch_events)
        if page.through <= place.position:
            return place.position
        rows = self._folder.rows(page.events, load=lambda keys: self._rows(place, keys), until=page.through)
        self._views.write(self._moved(place, page), rows, previous=place.position)
        return page.through

    def _moved(self, place: Place, page: Page) -> Place:
        """The place after a page, with the link of the last event up to there, so that another history is noticed."""
        if page.events and page.events[-1].position == page.through:
            return place.moved(page.through, page.events[-1])
        return place.moved(page.through, cursors.last_event(self.store.log, page.through))

    def _rows(self, place: Place, keys: Any) -> Any:
        return self._views.rows(place.projection, epoch=place.epoch, keys=keys).rows

    def catch_up(self, *, until: int | None = None, progress: Callable[[int], None] = lambda done: None) -> int:
        """Apply everything up to `until`, or to the head of now; the position of the rows after that."""
        head = self.store.head()
        end = head if until is None else min(until, head)
        while True:
            try:
                reached = self.step(until=end)
            except errors.ViewMoved:  # another runner made progress, which is as good
                reached = self.place().position
            progress(reached)
            if reached >= end:
                return reached

    def follow(self, *, stopped: Callable[[], bool], progress: Callable[[int], None] = lambda done: None) -> int:
        """Catch up, and apply new events as they come, until `stopped()` is true."""
        reached = self.catch_up(progress=progress)
        while not stopped():
            if self.store.wait(reached, timeout=WAIT_SECONDS) > reached or self._has_dropped():
                reached = self.catch_up(progress=progress)
        return reached

    def _has_dropped(self) -> bool:
        place = self.place()
        return bool(self._views.dropped(place.projection, place.epoch, limit=1))

    def lag(self) -> Lag:
        """How far the rows are behind the log."""
        return lag_at(self.store, self.place().position)
