"""SQL tables that projections own, in a database of the engine: next to the log, or the log's own.

Tables and the places of their projections are in one database, so one transaction can change both. The SQL dialect is
that of the engine: a projection that owns tables is written for one engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from tallystick.event.model import Event
from tallystick.store.views import TABLES, Place, Views, sound_definition

Values = Sequence[Any] | Mapping[str, Any]


class Execute(Protocol):
    """Runs one statement with its values bound, and returns its rows."""

    def __call__(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]: ...


class Session(msgspec.Struct, frozen=True):
    """One transaction: statements, the places of projections, and `discard`, which also drops the tables of a place."""

    execute: Execute
    views: Views
    discard: Callable[[Place], None]


def table_name(projection: str, epoch: int, table: str = "") -> str:
    """The name of a table of an epoch; without `table`, the prefix of all its tables."""
    return f"view_{projection}_{epoch}_{table}"


class ViewTables(Protocol):
    """Where the tables are."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable at the end of the block, and is rolled back if the block raises."""


def live_places(views: Views, tables: ViewTables) -> list[Place]:
    """The live places of all projections of a store, whether they have rows or own tables."""
    with tables.reading() as session:
        found = {place.projection: place for place in [*session.views.places(), *views.places()] if place.live}
    return [place for _, place in sorted(found.items())]


def drop_tables_of(tables: ViewTables, event: Event) -> None:
    """Drop every table that this event may have gone into; only its projection knows where. It starts again then."""
    with tables.reading() as session:
        found = [place for place in session.views.places() if _takes(session.views, place, event)]
    if found:
        with tables.writing() as session:
            for place in session.views.places():
                if _takes(session.views, place, event):
                    session.discard(place)


def _takes(views: Views, place: Place, event: Event) -> bool:
    made = sound_definition(views, place)
    return made is None or (made.kind == TABLES and event.type in made.types)
