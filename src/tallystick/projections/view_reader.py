"""Reading the rows of a projection from any process: by key, by range, or after waiting for a position."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tallystick import errors
from tallystick.event import canonical, names
from tallystick.projections.fingerprint import Digest, Fingerprint
from tallystick.projections.lag import Lag, lag_at
from tallystick.store.side_check import require_listed
from tallystick.store.store import Store
from tallystick.store.views import ROWS_PAGE, Place, ViewRow

_POLL_S = 0.005
_HEAD_S = 0.5
_TRIES = 20


class ViewReader:
    """Reads the live rows of one projection."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._views = store.log.views
        self.name = names.check_label("projection name", name)
        self._checked: set[int] = set()  # epochs whose rows belong to this history

    def place(self) -> Place | None:
        """The place of the rows; None if there are no rows yet. `WrongStore` if they belong to another history."""
        place = self._views.place(self.name)
        self._require_same_history(place)
        return place

    def _require_same_history(self, place: Place | None) -> None:
        """Refuse rows of another store, or of a log that was restored to an earlier state. Checked once per epoch."""
        if place is None or place.epoch in self._checked:
            return
        if place.position > self._store.head():  # on PostgreSQL the head may take a moment to be proven
            self._store.wait(place.position - 1, timeout=_HEAD_S)
        with suppress(errors.Damaged):  # the event that proves it is in a hole: the rows can still be read
            self._store.resume(place.checkpoint)
        self._checked.add(place.epoch)

    def position(self) -> int:
        """The position of the rows."""
        place = self.place()
        return 0 if place is None else place.position

    def get(self, key: str, default: Any = None) -> Any:
        """The state of one key."""
        _check_key("key", key)
        found = self._rows(keys=[key])
        return self._state(found[0]) if found and found[0].state is not None else default

    def rows(self, *, after: str = "", until: str | None = None, limit: int | None = None) -> list[tuple[str, Any]]:
        """Keys and states with after < key <= until, in order of key: all of them, or the first `limit`."""
        if limit is None:
            return list(self.items(after=after, until=until))
        _check_key("after", after)
        _check_key("until", until if until is not None else "")
        if type(limit) is not int or limit < 1:
            raise errors.InvalidValue(what="limit", value=names.display(limit), must="a number from 1 on")
        found = self._rows(after=after, until=until, limit=limit)
        return [(row.key, self._state(row)) for row in found if row.state is not None]

    def _state(self, row: ViewRow) -> Any:
        try:
            return canonical.decode(row.state or b"")
        except (ValueError, errors.Damaged) as problem:
            reason = f"the row {row.key!r} is damaged: {problem}; rebuild the projection"
            raise errors.ReadFailed(path=f"the rows of {self.name}", reason=reason) from problem

    def _rows(self, **which: Any) -> list[ViewRow]:
        found = self._views.rows(self.name, **which)
        if found.place is None:
            known = sorted({place.projection for place in self._views.places() if place.live})
            raise errors.ProjectionNotFound(name=self.name, known=", ".join(known) or "nothing")
        self._require_same_history(found.place)
        return found.rows

    def items(self, *, after: str = "", until: str | None = None) -> Iterator[tuple[str, Any]]:
        """All keys and states, page after page. A later page may be of a later moment, never of an earlier one."""
        place = self.place() if after == "" and until is None else None
        listed = 0
        while page := self.rows(after=after, until=until, limit=ROWS_PAGE):
            yield from page
            after = page[-1][0]
            listed += len(page)
        if place is not None:
            require_listed(self._views, place, listed)

    def fingerprint(self) -> Fingerprint:
        """The fingerprint of all rows at one moment."""
        for _ in range(_TRIES):
            place = self.place()
            if place is None:
                break
            digest, after = Digest(), ""
            while page := self._views.rows(self.name, epoch=place.epoch, after=after).rows:
                digest.add(page)
                after = page[-1].key
            require_listed(self._views, place, digest.rows)
            if self._views.place(self.name) == place:
                return Fingerprint(
                    name=self.name,
                    definition=place.definition,
                    position=place.position,
                    rows=digest.rows,
                    digest=digest.hex(),
                )
        raise errors.ViewMoved(projection=self.name, epoch=0, expected="rows that do not move", actual="none or moving")

    def lag(self) -> Lag:
        """How far the rows are behind the log."""
        return lag_at(self._store, self.position())

    def wait_for(self, position: int, *, timeout: float) -> int:
        """The position of the rows, as soon as it is at least `position`; `NotCaughtUp` after `timeout` seconds."""
        self.place()
        began = time.monotonic()
        while (reached := self.position()) < position:
            waited = time.monotonic() - began
            if waited >= timeout:
                waited_ms = round(waited * 1000)
                raise errors.NotCaughtUp(name=self.name, position=position, reached=reached, waited_ms=waited_ms)
            time.sleep(min(_POLL_S, timeout - waited))
        return reached


def _check_key(what: str, key: object) -> None:
    """Refuse a value that cannot be a key."""
    if type(key) is not str or key.encode(errors="ignore").decode() != key:
        raise errors.InvalidValue(what=what, value=names.display(key), must="a text without lone surrogates")
