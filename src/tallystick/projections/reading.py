"""Reading the rows of a projection, from any process: by key, by range, and not before they are far enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tallystick import errors
from tallystick.event import canonical
from tallystick.projections.fingerprint import Digest, Fingerprint
from tallystick.projections.lag import Lag, lag_at
from tallystick.store.store import Store
from tallystick.store.views import ROWS_PAGE, Place

_POLL_S = 0.005
_TRIES = 20


class ViewReader:
    """The live rows of the projection of this name."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._views = store.log.views
        self.name = name

    def place(self) -> Place | None:
        """Where the rows are; None if there are none yet. They belong to this history, or `WrongStore`."""
        place = self._views.place(self.name)
        if place is not None:
            self._store.resume(place.checkpoint)
        return place

    def position(self) -> int:
        """How far the rows are."""
        place = self._views.place(self.name)
        return 0 if place is None else place.position

    def get(self, key: str, default: Any = None) -> Any:
        """The state of one key."""
        found = self._views.rows(self.name, keys=[key]).rows
        return canonical.decode(found[0].state) if found and found[0].state is not None else default

    def rows(self, *, after: str = "", until: str | None = None, limit: int = ROWS_PAGE) -> list[tuple[str, Any]]:
        """Keys and states with after < key <= until, in the order of keys: one page."""
        found = self._views.rows(self.name, after=after, until=until, limit=limit).rows
        return [(row.key, canonical.decode(row.state)) for row in found if row.state is not None]

    def items(self) -> Iterator[tuple[str, Any]]:
        """All keys and states, page after page; pages may be of different moments, never of earlier ones."""
        after = ""
        while page := self.rows(after=after):
            yield from page
            after = page[-1][0]

    def fingerprint(self) -> Fingerprint:
        """The fingerprint of all rows at one moment."""
        for _ in range(_TRIES):
            place = self._views.place(self.name)
            if place is None:
                break
            digest, after = Digest(), ""
            while page := self._views.rows(self.name, epoch=place.epoch, after=after).rows:
                digest.add(page)
                after = page[-1].key
            if self._views.place(self.name) == place:
                return Fingerprint(
                    name=self.name,
                    definition=place.definition,
                    position=place.position,
                    rows=digest.rows,
                    digest=digest.hex(),
                )
        raise errors.ViewMoved(projection=self.name, epoch=0, expected="rows that rest", actual="none or moving")

    def lag(self) -> Lag:
        """How far the rows are behind the log."""
        return lag_at(self._store, self.position())

    def wait_for(self, position: int, *, timeout: float) -> int:
        """How far the rows are, as soon as that is `position`: read your writes. `NotCaughtUp` when time is up."""
        self.place()
        began = time.monotonic()
        while (reached := self.position()) < position:
            waited = time.monotonic() - began
            if waited >= timeout:
                waited_ms = round(waited * 1000)
                raise errors.NotCaughtUp(name=self.name, position=position, reached=reached, waited_ms=waited_ms)
            time.sleep(min(_POLL_S, timeout - waited))
        return reached
