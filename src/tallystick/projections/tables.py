"""Projections that own SQL tables, for queries that states under keys cannot answer. Spark does not run them.

    class OpenOrders(TableProjection):
        types = ("order.placed", "order.paid")
        tables = ("orders",)

        def create(self, execute):
            execute("CREATE TABLE {orders} (id TEXT PRIMARY KEY, amount INTEGER)")

        def apply(self, execute, event):
            execute("INSERT INTO {orders} VALUES (?, ?)", (event.stream, event.data["amount"]))

`{orders}` becomes the table of the current epoch, so that a rebuild fills tables of its own. Tables and checkpoint
change in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from tallystick import errors
from tallystick.event.model import Event
from tallystick.projections import model
from tallystick.projections.live import BATCH_EVENTS, WAIT_SECONDS
from tallystick.projections.places import PlaceKeeper, require_order
from tallystick.store import cursors
from tallystick.store.selection import Selection
from tallystick.store.store import Store
from tallystick.store.tables import Execute, Session, Values, table_name
from tallystick.store.views import TABLES, Place

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,30}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class TableProjection(model.Projection):
    """The base of projections that own tables: `tables` names them, `create` creates them, `apply` changes them."""

    kind = TABLES
    tables: ClassVar[tuple[str, ...]] = ()

    def create(self, execute: Execute) -> None:
        """Create the tables and their indexes."""
        raise NotImplementedError

    def apply(self, execute: Any, event: Event) -> Any:
        """Apply an event to the tables. `event.data` is None if the event was erased."""
        raise NotImplementedError


class TableRunner:
    """Keeps the tables of one projection current."""

    def __init__(self, store: Store, projection: TableProjection, *, batch_events: int = BATCH_EVENTS) -> None:
        _check(projection)
        require_order(store)
        self.store = store
        self.projection = projection
        self._tables = store.log.view_tables
        self._selection = Selection(types=frozenset(projection.types))
        self._batch_events = batch_events

    def catch_up(self, *, progress: Callable[[int], None] = lambda done: None) -> int:
        """Apply everything up to the head of now; the position of the tables after that."""
        return self._catch_up(None, progress)

    def follow(self, *, stopped: Callable[[], bool], progress: Callable[[int], None] = lambda done: None) -> int:
        """Catch up, and apply new events as they come, until `stopped()` is true."""
        reached = self.catch_up(progress=progress)
        while not stopped():
            self.store.wait(reached, timeout=WAIT_SECONDS)
            reached = self.catch_up(progress=progress)
        return reached

    def _catch_up(self, epoch: int | None, progress: Callable[[int], None]) -> int:
        end = self.store.head()
        while True:
            with self._tables.writing() as session:
                reached = self._step(session, epoch, end)
            progress(reached)
            if reached >= end:
                return reached

    def _step(self, session: Session, epoch: int | None, end: int) -> int:
        place = self._place(session, epoch)
        page = self.store.read(after=place.position, until=end, selection=self._selection, limit=self._batch_events)
        execute = self._within(session, place.epoch)
        for event in page.events:
            self._apply(execute, event)
        if page.through > place.position:
            last = cursors.last_event(self.store.log, page.through)
            session.views.write(place.moved(page.through, last), [], previous=place.position)
        return page.through

    def _apply(self, execute: Execute, event: Event) -> None:
        try:
            self.projection.apply(execute, event)
        except errors.TallyError:
            raise
        except Exception as problem:
            raise errors.ProjectionFailed(
                name=self.projection.name,
                stream=event.stream,
                seq=event.seq,
                position=event.position,
                reason=errors.reason_of(problem),
            ) from problem

    def _place(self, session: Session, epoch: int | None) -> Place:
        keeper = PlaceKeeper(self.store, self.projection, session.views)
        if epoch is None:
            if session.views.place(self.projection.name) is None:
                self._begin(session, live=True)
            return keeper.live()
        place = session.views.rows(self.projection.name, epoch=epoch, keys=()).place
        if place is None or place.discarded:
            name = self.projection.name
            raise errors.ViewMoved(projection=name, epoch=epoch, expected="there", actual="discarded")
        return keeper.checked(place)

    def _begin(self, session: Session, *, live: bool) -> int:
        keeper = PlaceKeeper(self.store, self.projection, session.views)
        place = keeper.new(keeper.next_epoch(), live=live)
        session.views.begin(place)
        self.projection.create(self._within(session, place.epoch))
        return place.epoch

    def rebuild(self, *, progress: Callable[[int], None] = lambda done: None) -> int:
        """Fill new tables from the first event, switch to them, and drop the old ones."""
        with self._tables.writing() as session:
            for place in session.views.places():
                if place.projection == self.projection.name and not place.live:
                    session.discard(place)
            epoch = self._begin(session, live=False)
        while True:
            reached = self._catch_up(epoch, progress)
            with self._tables.writing() as session:
                live = session.views.place(self.projection.name)
                if live is not None and live.position > reached:
                    continue
                session.views.switch(self.projection.name, epoch, over=live.epoch if live else None)
                if live is not None:
                    session.discard(live)
                return reached

    def _within(self, session: Session, epoch: int) -> Execute:
        """A function that runs statements on the tables of one epoch."""
        named = {table: f'"{table_name(self.projection.name, epoch, table)}"' for table in self.projection.tables}

        def execute(statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
            return session.execute(_PLACEHOLDER.sub(lambda found: named.get(found[1], found[0]), statement), values)

        return execute

    def query(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT on the live tables."""
        with self._tables.reading() as session:
            place = session.views.place(self.projection.name)
            if place is None:
                raise errors.NotCaughtUp(name=self.projection.name, position=1, reached=0, waited_ms=0)
            return self._within(session, place.epoch)(statement, values)


def _check(projection: TableProjection) -> None:
    model.check(projection)
    reason = None
    if not isinstance(projection, TableProjection):
        reason = "it owns no tables, and is run by Live"
    elif not projection.tables or not all(map(_NAME.fullmatch, (projection.name, *projection.tables))):
        reason = f"its name and those of its tables must match {_NAME.pattern}"
    elif projection.order != model.BY_POSITION:
        reason = "tables are filled in the order of the log"
    if reason is not None:
        raise errors.ProjectionInvalid(name=projection.name, reason=reason)
