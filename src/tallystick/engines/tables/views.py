"""The rows of projections in SQLite tables: `views` has one row per epoch, `view_rows` one per key.

Invariants: at most one epoch of a projection is live (a unique index says so); rows, their number and the position of
their epoch change in the same transaction, which first compares where the epoch was. `batch_rows` has what tasks
computed for a batch that is not written yet; no reader looks there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.tables import statements
from tallystick.engines.tables.connection import SqliteTransactions
from tallystick.store import row_checks
from tallystick.store.views import ROWS_PAGE, Place, Rows, Seen, ViewRow, can_become_live

_KEYS_AT_ONCE = 500
_CHECKSUM = -1  # the last column of a row of `views`


class OpenTransaction:
    """The connection of a transaction that the caller began and will commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        yield self._connection

    snapshot = writing = _connected


class SqliteViews:
    """The tables `views` and `view_rows` of a database."""

    def __init__(self, transactions: SqliteTransactions, seen: Seen | None = None) -> None:
        self._transactions = transactions
        self.seen: Seen = set() if seen is None else seen

    def place(self, projection: str) -> Place | None:
        with self._transactions.snapshot() as connection:
            return _checked_place(connection, projection, None)

    def places(self) -> list[Place]:
        with self._transactions.snapshot() as connection:
            return _places(connection)

    def begin(self, place: Place) -> None:
        with self._transactions.writing() as connection:
            done = connection.execute(statements.named("begin_view"), _values(place))
            if done.rowcount != 1:
                raise _moved(place, "none", "there")

    def rows(
        self,
        projection: str,
        *,
        epoch: int | None = None,
        keys: Sequence[str] | None = None,
        after: str = "",
        until: str | None = None,
        limit: int = ROWS_PAGE,
    ) -> Rows:
        with self._transactions.snapshot() as connection:
            place = _checked_place(connection, projection, epoch)
            if place is None:
                return Rows(None, [])
            if keys is not None:
                by_key = row_checks.checked_rows(place, _find(connection, place, keys))
                if len(by_key) < len(set(keys)):
                    self._require_all(connection, place)
                return Rows(place, by_key)
            self._require_all(connection, place)
            values = {"projection": projection, "epoch": place.epoch, "after": after, "until": until, "limit": limit}
            found = connection.execute(statements.named("read_view_rows"), values).fetchall()
            return Rows(place, row_checks.checked_rows(place, found))

    def write(self, place: Place, rows: Sequence[ViewRow], *, previous: int) -> None:
        with self._transactions.writing() as connection:
            _move(connection, place, previous)
            named = (place.projection, place.epoch)
            kept = [row for row in rows if row.state is not None]
            checked = zip(kept, row_checks.of_rows(place, kept), strict=True)
            values = [(*named, row.key, row.state, row.mark, check) for row, check in checked]
            keys = list(dict.fromkeys(row.key for row in kept))
            added = len(keys) - _number_of(connection, place, keys)
            connection.executemany(statements.named("put_view_row"), values)
            removed = [(*named, row.key) for row in rows if row.state is None]
            gone = connection.executemany(statements.named("delete_view_row"), removed).rowcount
            if added != gone:
                _count(connection, place, added - gone)

    def fill_batch(self, place: Place, batch: bytes, rows: Sequence[ViewRow]) -> None:
        with self._transactions.writing() as connection:
            if connection.execute(statements.named("is_view_at"), _values(place)).fetchone() is None:
                raise _elsewhere(connection, place, place.position)
            checked = zip(rows, row_checks.of_rows(place, rows), strict=True)
            named = (place.projection, place.epoch, batch)
            values = [(*named, row.key, row.state, row.mark, check) for row, check in checked]
            connection.executemany(statements.named("put_batch_row"), values)

    def write_batch(self, place: Place, batch: bytes, *, rows: int, previous: int) -> None:
        with self._transactions.writing() as connection:
            _move(connection, place, previous)
            values = {"projection": place.projection, "epoch": place.epoch, "batch": batch}
            (found,) = connection.execute(statements.named("count_batch_rows"), values).fetchone()
            if found != rows:
                raise _moved(place, f"a batch of {rows} rows", f"a batch of {found}")
            (added,) = connection.execute(statements.named("count_new_batch_rows"), values).fetchone()
            connection.execute(statements.named("write_batch_rows"), values)
            gone = connection.execute(statements.named("delete_view_rows_of_batch"), values).rowcount
            connection.execute(statements.named("empty_batches"), values)
            if added != gone:
                _count(connection, place, added - gone)

    def switch(self, projection: str, epoch: int, *, over: int | None) -> None:
        with self._transactions.writing() as connection:
            staged, live = _place(connection, projection, epoch), _place(connection, projection, None)
            if staged is None or not can_become_live(staged, live, over=over):
                actual = "none" if live is None else f"epoch {live.epoch} at {live.position}"
                raise errors.ViewMoved(projection=projection, epoch=epoch, expected=str(over), actual=actual)
            statement = statements.named("set_view_live")
            if live is not None:
                connection.execute(statement, {"projection": projection, "epoch": live.epoch, "live": 0})
            connection.execute(statement, {"projection": projection, "epoch": epoch, "live": 1})

    def discard(self, projection: str, epoch: int, *, limit: int, live: bool = False) -> int:
        with self._transactions.writing() as connection:
            values = {"projection": projection, "epoch": epoch, "limit": limit, "live": live}
            if connection.execute(statements.named("close_view"), values).rowcount != 1:
                return 0
            connection.execute(statements.named("empty_batches"), values)
            gone = connection.execute(statements.named("delete_view_rows"), values).rowcount
            if gone < limit:
                connection.execute(statements.named("delete_view"), values)
            return gone

    def drop(self, projection: str, keys: Sequence[str]) -> None:
        with self._transactions.writing() as connection:
            epochs = [place.epoch for place in _places(connection) if place.projection == projection]
            named = [(projection, epoch, key) for epoch in epochs for key in keys]
            connection.executemany(statements.named("drop_view_row"), named)
            connection.execute(statements.named("count_view_drop"), {"projection": projection})
            connection.execute(statements.named("empty_batches"), {"projection": projection, "epoch": None})

    def counted(self, projection: str, *, epoch: int | None = None) -> int | None:
        with self._transactions.snapshot() as connection:
            place = _checked_place(connection, projection, epoch)
            return None if place is None or place.discarded else _counted(connection, place)

    def _require_all(self, connection: sqlite3.Connection, place: Place) -> None:
        """Check once that an epoch has all of its rows, before an answer says which do not exist."""
        name = (place.projection, place.epoch, place.drops)
        if name not in self.seen and not place.discarded:
            if _counted(connection, place) <= row_checks.FEW_ROWS:
                named = {"projection": place.projection, "epoch": place.epoch}
                found = connection.execute(statements.named("list_view_rows"), named).fetchall()
                rows = row_checks.checked_rows(place, found)
                by_key = _find(connection, place, [row.key for row in rows])
                row_checks.require_count(place, counted=len(rows), found=len(by_key))
            self.seen.add(name)

    def dropped(self, projection: str, epoch: int, *, limit: int) -> list[str]:
        with self._transactions.snapshot() as connection:
            values = {"projection": projection, "epoch": epoch, "limit": limit}
            return [key for (key,) in connection.execute(statements.named("list_dropped_rows"), values)]


def _move(connection: sqlite3.Connection, place: Place, previous: int) -> None:
    """Move an epoch to `place`, if it is still at `previous` and `drops`."""
    if connection.execute(statements.named("move_view"), _values(place) | {"previous": previous}).rowcount != 1:
        raise _elsewhere(connection, place, previous)


def _elsewhere(connection: sqlite3.Connection, place: Place, expected: int) -> errors.ViewMoved:
    stored = _place(connection, place.projection, place.epoch)
    return _moved(place, str(expected), "gone" if stored is None else str(stored.position))


def _count(connection: sqlite3.Connection, place: Place, more: int) -> None:
    values = {"projection": place.projection, "epoch": place.epoch, "more": more}
    connection.execute(statements.named("change_row_count"), values)


def _counted(connection: sqlite3.Connection, place: Place) -> int:
    named = {"projection": place.projection, "epoch": place.epoch}
    found = connection.execute(statements.named("count_view_rows"), named).fetchone()
    counted, there, served = found or (None, 0, 0)
    row_checks.require_count(place, counted=counted, found=there)
    return int(served)


def _number_of(connection: sqlite3.Connection, place: Place, keys: Sequence[str]) -> int:
    """How many of these keys have a row."""
    number = 0
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[first : first + _KEYS_AT_ONCE]
        statement = statements.named("count_rows_of_keys").format(keys=", ".join("?" * len(some)))
        number += connection.execute(statement, (place.projection, place.epoch, *some)).fetchone()[0]
    return int(number)


def _find(connection: sqlite3.Connection, place: Place, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of some keys. One by one: a connection that appends may not use `json_each`."""
    statement, execute = statements.named("find_view_row"), connection.execute
    found = (execute(statement, (place.projection, place.epoch, key)).fetchone() for key in sorted(set(keys)))
    return [row for row in found if row is not None]


def _values(place: Place) -> dict[str, Any]:
    return msgspec.structs.asdict(place) | {"checksum": row_checks.of_place(place)}


def _row_of(connection: sqlite3.Connection, projection: str, epoch: int | None) -> tuple[Any, ...] | None:
    name = "find_live_view" if epoch is None else "find_view"
    found = connection.execute(statements.named(name), {"projection": projection, "epoch": epoch}).fetchone()
    return None if found is None else tuple(found)


def _place(connection: sqlite3.Connection, projection: str, epoch: int | None) -> Place | None:
    """A place as it is stored, for a call that replaces or removes it: damage must not hold that up."""
    row = _row_of(connection, projection, epoch)
    return None if row is None else _as_place(row)


def _checked_place(connection: sqlite3.Connection, projection: str, epoch: int | None) -> Place | None:
    row = _row_of(connection, projection, epoch)
    return None if row is None else row_checks.checked_place(_as_place(row), row[_CHECKSUM])


def _places(connection: sqlite3.Connection) -> list[Place]:
    return [_as_place(row) for row in connection.execute(statements.named("list_views"))]


def _as_place(row: tuple[Any, ...]) -> Place:
    values = dict(zip(Place.__struct_fields__, row[:_CHECKSUM], strict=True))
    return Place(**values | {"live": bool(values["live"])})


def _moved(place: Place, expected: str, actual: str) -> errors.ViewMoved:
    return errors.ViewMoved(projection=place.projection, epoch=place.epoch, expected=expected, actual=actual)
