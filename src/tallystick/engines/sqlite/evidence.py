"""What the database knows besides the events that are read: the links before them, and what was erased."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallystick import errors
from tallystick.engines.sqlite.view import SqliteView
from tallystick.engines.tables.database import Database
from tallystick.event.model import Event
from tallystick.store import checked


class SqliteEvidence:
    """Answers from the rows. See `tallystick.store.checked.Evidence`."""

    def __init__(self, database: Database, is_whole: Callable[[], bool]) -> None:
        self._database = database
        self._is_whole = is_whole

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        """For each event the link of the one before it in its stream; see the port."""
        try:
            with self._database.reading() as connection:
                found = SqliteView(connection).links_before(events)
            if None not in found or not self._is_whole():
                return found
            with self._database.reading() as connection:  # looked up again: a move may have ended meanwhile
                view = SqliteView(connection)
                return checked.predecessor_links(events, view.links_before(events), view.cut)
        except errors.Damaged:  # the event before one of them lies on a damaged page: reading that one names it
            return [None] * len(events)

    def erased(self, positions: Sequence[int]) -> set[int]:
        """Those of these positions whose erasure is noted."""
        with self._database.reading() as connection:
            return SqliteView(connection).erased(positions)
