"""Whose a stream was from its first event on.

A stream gets its org from the first event that names one. Events before that are nobody's, so such a stream is not
shown to a caller who is bound to the org: they would see what was not written for them.
"""

from __future__ import annotations

from tallystick import errors
from tallystick.store.store import Store

KEPT_MAX = 1 << 16


class Births:
    """What is known of first events. They never change, so each is looked at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, bool] = {}

    def is_of(self, stream: str, org: str | None) -> bool:
        """Whether the first event of a stream that belongs to this org named it."""
        known = self._kept.get(stream)
        if known is not None:
            return known
        cut = self._store.cut(stream)
        try:
            first = self._store.read_stream(stream, after=0 if cut is None else cut.through, limit=1)
        except (errors.Damaged, errors.HistoryPruned):
            return False  # what cannot be seen now may be nobody's: asked again the next time
        if not first:
            return True
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[stream] = first[0].metadata.get("org") == org
        return self._kept[stream]
