"""Inline projections: their rows are stored before an append is acknowledged.

Only `key = "stream"` is allowed: a commit orders only its own streams, so under another key the order of events would
be unknown. Where log and rows share a database, both are one transaction. On a file log the rows are stored after the
events are durable and before the append returns; what a crash left out is caught up at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallystick import errors
from tallystick.event.model import Event, Row
from tallystick.projections import model
from tallystick.projections.live import Live
from tallystick.projections.row_folder import RowFolder
from tallystick.store import facts
from tallystick.store.store import Store
from tallystick.store.views import BY_STREAM, ROWS, Place, ViewRow, Views


class InlineProjections:
    """The hook that a log calls within each commit."""

    def __init__(self, store: Store, projections: Sequence[model.Projection]) -> None:
        for projection in projections:
            _check(projection)
        if len({projection.name for projection in projections}) != len(projections):
            raise errors.ProjectionInvalid(name=projections[0].name, reason="two of them share a name")
        self._store = store
        self._projections = projections

    def prepare(self, rows: Sequence[Row], views: Views) -> Callable[[Views], None]:
        """Fold the events of a commit before it happens. A projection that fails refuses the commit."""
        events = self._store.catalog.upcast([Event(*row) for row in rows])
        batches = [self._batch(projection, events, views) for projection in self._projections]

        def store_rows(views: Views) -> None:
            for projection, (before, moved, new) in zip(self._projections, batches, strict=True):
                self._store_batch(projection, before, moved, new, views)

        return store_rows

    def _batch(
        self, projection: model.Projection, events: list[Event], views: Views
    ) -> tuple[Place, Place, list[ViewRow]]:
        """The place before, the place after, and the rows of one projection."""
        runner = Live(self._store, projection, views=views)
        before = runner.place()
        due = events[0].position - 1
        erases = any(event.type == facts.ERASED for event in events)  # then the log still has the payload
        if before.position < due or (not erases and views.dropped(before.projection, before.epoch, limit=1)):
            runner.catch_up(until=due)
            before = runner.place()
        taken = [event for event in events if event.type in projection.types and event.position > before.position]

        def load(keys: Sequence[str]) -> list[ViewRow]:
            return views.rows(before.projection, epoch=before.epoch, keys=keys).rows

        new = RowFolder(self._store, projection).rows(taken, load=load, until=due)
        return before, before.moved(events[-1].position, events[-1]), new

    def _store_batch(
        self, projection: model.Projection, before: Place, moved: Place, new: list[ViewRow], views: Views
    ) -> None:
        try:
            views.write(moved, new, previous=before.position)
        except errors.ViewMoved:  # on a file log another process may run the same projection
            reached = Live(self._store, projection, views=views).catch_up(until=moved.position)
            if reached < moved.position:
                raise


def run_inline(store: Store, *projections: model.Projection) -> InlineProjections:
    """Catch up, and then keep these projections current within every append of this handle."""
    inline = InlineProjections(store, projections)
    for projection in projections:
        Live(store, projection).catch_up()
    store.log.inline = inline
    return inline


def _check(projection: model.Projection) -> None:
    model.check(projection)
    reason = None
    if projection.kind != ROWS:
        reason = "it owns SQL tables, and cannot run inline"
    elif projection.key != BY_STREAM:
        reason = f"only key = {BY_STREAM!r} can run inline: other keys would see another order than the log's"
    elif projection.order != model.BY_POSITION:
        reason = f"only order = {model.BY_POSITION!r} can run inline"
    if reason is not None:
        raise errors.ProjectionInvalid(name=projection.name, reason=reason)
