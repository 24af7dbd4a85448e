"""The rows of projections: `tally.views` has one row per epoch, `tally.view_rows` one per key.

Invariants: a unique index keeps at most one epoch of a projection live. A session that changes rows of an epoch has
locked its row in `tally.views`, so a comparison of its place holds until the commit. A batch is one statement.
`tally.batch_rows` has what tasks computed for a batch that is not written yet; no reader may look there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import arrays, statements
from tallystick.engines.postgres.transactions import Transactions
from tallystick.store import row_checks
from tallystick.store.views import ROWS_PAGE, Place, Rows, Seen, ViewRow, can_become_live

# Of the statements that return a place, and then its rows in the same columns: after the number of the epoch.
_PLACE_COLUMNS, _ROW_COLUMNS = slice(1, -4), slice(-4, None)


class PostgresViews:
    """The rows of one database. `locks` keeps live places from moving until the transaction ends."""

    def __init__(
        self, transactions: Transactions, *, locks: bool = False, refusal: str | None = None, seen: Seen | None = None
    ) -> None:
        self.seen: Seen = set() if seen is None else seen
        self._transactions = transactions
        self._find_live = "lock_live_view" if locks else "find_live_view"
        self._refusal = refusal

    def place(self, projection: str) -> Place | None:
        found = self._transactions.rows(self._find_live, (projection,))
        return _checked_place(found[0]) if found else None

    def places(self) -> list[Place]:
        return [_place(row) for row in self._transactions.rows("list_views")]

    def begin(self, place: Place) -> None:
        self._require_whole_log()
        if not self._transactions.change("begin_view", _values(place)):
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
        if keys is None:
            which: dict[str, Any] = {"after": after, "until": until, "limit": limit}
            found = self._found("read_view_rows", projection, epoch, which)
        else:
            found = self._found("find_view_rows", projection, epoch, {"keys": _keys(sorted(set(keys)))})
        if found.place is not None and (keys is None or len(found.rows) < len(set(keys))):
            self._see_all(found.place)
        return found

    def _found(self, statement: str, projection: str, epoch: int | None, which: dict[str, Any]) -> Rows:
        found = self._transactions.rows(statement, {"projection": projection, "epoch": epoch} | which)
        if not found:
            return Rows(None, [])
        place = _checked_place(found[0][_PLACE_COLUMNS])
        return Rows(place, row_checks.checked_rows(place, [row[_ROW_COLUMNS] for row in found[1:]]))

    def _see_all(self, place: Place) -> None:
        """Check once that an epoch has all of its rows, before a key is reported as missing."""
        name = (place.projection, place.epoch, place.drops)
        if name not in self.seen and not place.discarded:
            counted = self.counted(place.projection, epoch=place.epoch)
            if counted is not None and counted <= row_checks.FEW_ROWS:
                which = {"after": "", "until": None, "limit": row_checks.FEW_ROWS}
                self._found("read_view_rows", place.projection, place.epoch, which)
            self.seen.add(name)

    def counted(self, projection: str, *, epoch: int | None = None) -> int | None:
        found = self._transactions.rows("count_view_rows", {"projection": projection, "epoch": epoch})
        if not found:
            return None
        *row, counted, there, served = found[0]
        place = _checked_place(row)
        if place.discarded:
            return None
        row_checks.require_count(place, counted=counted, found=there)
        return int(served)

    def write(self, place: Place, rows: Sequence[ViewRow], *, previous: int) -> None:
        self._require_whole_log()
        values = _values(place) | _columns(place, rows) | {"previous": previous}
        if not self._transactions.change("write_view", values):
            raise self._elsewhere(place, previous)

    def fill_batch(self, place: Place, batch: bytes, rows: Sequence[ViewRow]) -> None:
        self._require_whole_log()
        values = _values(place) | _columns(place, rows) | {"batch": batch}
        if not self._transactions.change("fill_view_batch", values):
            raise self._elsewhere(place, place.position)

    def write_batch(self, place: Place, batch: bytes, *, rows: int, previous: int) -> None:
        self._require_whole_log()
        with self._transactions.writing() as connection:
            moved = _ask(connection, "move_view", _values(place) | {"previous": previous})
            if not moved:
                raise self._elsewhere(place, previous)
            ((number,),) = moved
            values = {"number": number, "batch": batch}
            ((found,),) = _ask(connection, "count_batch_rows", values)
            if found != rows:
                raise _moved(place, f"a batch of {rows} rows", f"a batch of {found}")
            ((added,),) = _ask(connection, "count_new_batch_rows", values)
            connection.execute(statements.named("write_batch_rows"), values)
            gone = connection.execute(statements.named("delete_view_rows_of_batch"), values).rowcount
            connection.execute(statements.named("empty_batches"), values)
            connection.execute(statements.named("change_row_count"), values | {"more": added - gone})

    def _elsewhere(self, place: Place, expected: int) -> errors.ViewMoved:
        stored = self._transactions.rows("find_view", (place.projection, place.epoch))
        return _moved(place, str(expected), str(_place(stored[0]).position) if stored else "gone")

    def switch(self, projection: str, epoch: int, *, over: int | None) -> None:
        self._require_whole_log()
        with self._transactions.writing() as connection:
            places = [_place(row) for row in _ask(connection, "lock_views", (projection,))]
            staged = next((place for place in places if place.epoch == epoch), None)
            live = next((place for place in places if place.live), None)
            if staged is None or not can_become_live(staged, live, over=over):
                actual = "none" if live is None else f"epoch {live.epoch} at {live.position}"
                raise errors.ViewMoved(projection=projection, epoch=epoch, expected=str(over), actual=actual)
            if live is not None:
                connection.execute(statements.named("set_view_live"), (False, projection, live.epoch))
            try:
                connection.execute(statements.named("set_view_live"), (True, projection, epoch))
            except psycopg.errors.UniqueViolation as problem:  # another session switched at the same moment
                raise _moved(staged, str(over), "another epoch is live") from problem

    def discard(self, projection: str, epoch: int, *, limit: int, live: bool = False) -> int:
        with self._transactions.writing() as connection:
            values = {"projection": projection, "epoch": epoch, "live": live}
            closed = _ask(connection, "close_view", values)
            if not closed:
                return 0
            ((number,),) = closed
            values = {"number": number, "limit": limit}
            connection.execute(statements.named("empty_batches"), values)
            gone = connection.execute(statements.named("delete_view_rows"), values).rowcount
            if gone < limit:
                connection.execute(statements.named("delete_view"), values)
            return gone

    def drop(self, projection: str, keys: Sequence[str]) -> None:
        with self._transactions.writing() as connection:
            drop_within(connection, projection, keys)

    def dropped(self, projection: str, epoch: int, *, limit: int) -> list[str]:
        return [key for (key,) in self._transactions.rows("list_dropped_rows", (projection, epoch, limit))]

    def _require_whole_log(self) -> None:
        if self._refusal is not None:
            raise errors.ReadOnly(reason=self._refusal)


def drop_within(connection: psycopg.Connection[Any], projection: str, keys: Sequence[str]) -> None:
    """Drop states within a transaction. It first locks the places: then it sees all rows of others, and none follow."""
    connection.execute(statements.named("lock_views"), (projection,))
    connection.execute(statements.named("count_view_drop"), (projection,))
    connection.execute(statements.named("drop_view_rows"), (projection, _keys(keys)))
    connection.execute(statements.named("empty_batches_of"), (projection,))


def not_whole(org: str | None) -> str | None:
    """Why a handle for one org cannot keep rows: it sees a part of the log, and rows are of the whole log."""
    return None if org is None else f"it acts only for {org!r}, and rows of projections are of the whole log"


def _values(place: Place) -> dict[str, Any]:
    return msgspec.structs.asdict(place) | {"checksum": row_checks.of_place(place)}


def _columns(place: Place, rows: Sequence[ViewRow]) -> dict[str, Any]:
    """Rows as one array per column, and the keys of those without a state."""
    kept = [row for row in rows if row.state is not None]
    return {
        "keys": _keys([row.key for row in kept]),
        "states": arrays.texts([row.state for row in kept if row.state is not None]),
        "marks": arrays.blobs([row.mark for row in kept]),
        "checks": arrays.blobs(row_checks.of_rows(place, kept)),
        "gone": _keys([row.key for row in rows if row.state is None]),
    }


def _place(row: Sequence[Any]) -> Place:
    """A place as it is stored, unchecked: damage must not hold up what replaces or removes it."""
    return Place(**dict(zip(Place.__struct_fields__, row[:-1], strict=True)))


def _checked_place(row: Sequence[Any]) -> Place:
    return row_checks.checked_place(_place(row), row[-1])


def _keys(keys: Sequence[str]) -> arrays.Texts:
    return arrays.texts([key.encode() for key in keys])


def _ask(connection: psycopg.Connection[Any], name: str, values: Any) -> list[tuple[Any, ...]]:
    return connection.execute(statements.named(name), values, binary=True).fetchall()


def _moved(place: Place, expected: str, actual: str) -> errors.ViewMoved:
    return errors.ViewMoved(projection=place.projection, epoch=place.epoch, expected=expected, actual=actual)
