"""Whose the events of a stream are, as far as its org may see them.

A stream gets its org from the first event that names one. Events that name no org are nobody's, before that and later:
a caller who is bound to the org sees neither them nor a state that they went into, and a stream that began with one of
them is not shown at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick import errors
from tallystick.event.model import Event
from tallystick.store import facts, iterate
from tallystick.store.store import Store

KEPT_MAX = 1 << 16


class Births:
    """What is known of the events of streams. They never change, so each is looked at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, bool] = {}
        self._whole: dict[str, int] = {}  # stream -> up to where every event is known to name the org

    def is_of(self, stream: str, org: str | None) -> bool:
        """Whether the first event of a stream that belongs to this org named it."""
        known = self._kept.get(stream)
        if known is not None:
            return known
        try:
            first = self._store.read_stream(stream, after=self._cut(stream), limit=1)
        except (errors.Damaged, errors.HistoryPruned):
            return False  # what cannot be seen now may be nobody's: asked again the next time
        if not first:
            return True
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[stream] = first[0].about.org == org
        return self._kept[stream]

    def is_whole(self, stream: str, org: str) -> bool:
        """Whether every event of a stream named this org, those that were pruned too."""
        if self._has_lost_others(stream):
            return False
        after = max(self._whole.get(stream, 0), self._cut(stream))
        for page in iterate.stream_pages(self._store.log, stream, after=after):
            if any(event.about.org != org for event in page):
                return False
            after = page[-1].seq
        if len(self._whole) >= KEPT_MAX:
            self._whole.clear()
        self._whole[stream] = after
        return True

    def _cut(self, stream: str) -> int:
        cut = self._store.cut(stream)
        return 0 if cut is None else cut.through

    def _has_lost_others(self, stream: str) -> bool:
        if not self._cut(stream):
            return False
        pruned = (event for event in self._facts(stream) if event.type == facts.PRUNED)
        return any(facts.parse(event, facts.Pruned).mixed for event in pruned)

    def _facts(self, stream: str) -> Iterator[Event]:
        return self._store.stream(facts.stream_about(stream))
