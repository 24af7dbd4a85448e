"""SQL tables that projections own, in a database of the engine's: beside the log, or the log's own.

Tables and the places of their projections stand in one database, so a transaction holds both. The dialect is that of
the engine: a projection that owns tables is written for one.
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
    """Runs one statement, with its values bound, and gives the rows it returns."""

    def __call__(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]: ...


class Session(msgspec.Struct, frozen=True):
    """One transaction: statements, the places of projections, and `discard`, which drops the tables of a place too."""

    execute: Execute
    views: Views
    discard: Callable[[Place], None]


def table_name(projection: str, epoch: int, table: str = "") -> str:
    """What the table of an epoch is called; without a table, how all of them begin."""
    return f"view_{projection}_{epoch}_{table}"


class ViewTables(Protocol):
    """Where the tables are."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable when the block is left, and did not happen if it raises."""


def live_places(views: Views, tables: ViewTables) -> list[Place]:
    """Where every projection of a store is, whether it keeps rows or owns tables."""
    with tables.reading() as session:
        found = {place.projection: place for place in [*session.views.places(), *views.places()] if place.live}
    return [place for _, place in sorted(found.items())]


def drop_tables_of(tables: ViewTables, event: Event) -> None:
    """Drop every table that this event may have gone into: only its projection knows where. It will start anew."""
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
