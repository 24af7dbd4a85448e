"""Samples of the state of the store: sizes, growth, lag, free space, damage. A sample of a long log is cheap too.

One sample serves everyone who asks within `AGE_SECONDS`, so that scrapes and probes do not load the store. While a
sample is taken nobody else waits for it: a store that hangs must not block every thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.projections import Gauge, gauges
from tallystick.store import gauges as store_gauges
from tallystick.store.deadletters import LetterCounts
from tallystick.store.events import Problem
from tallystick.store.store import Store

AGE_SECONDS = 2.0
STUCK_SECONDS = 10.0
FIRST_LOOK_SECONDS = 2.0
NOT_ENDED = "a sample of it has not ended"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One sample. Sizes are in bytes, None if the engine does not know. `failure` says why the store did not answer."""

    taken: float
    head: int = 0
    floor: int = 0
    bytes: int | None = None
    free_bytes: int | None = None
    events_per_day: float = 0.0
    readonly: bool = False
    holes: int = 0
    lags: tuple[Gauge, ...] = ()
    letters: LetterCounts = LetterCounts(kept=0, by_consumer={})
    problems: tuple[Problem, ...] = ()
    failure: str = ""


class Sampler:
    """Takes samples of one store, one at a time."""

    def __init__(
        self, store: Store, *, age_seconds: float = AGE_SECONDS, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._age_seconds = age_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last: Sample | None = None

    @property
    def last(self) -> Sample | None:
        """The last sample, however old."""
        return self._last

    def sample(self, *, fresh: bool = False) -> Sample:
        """A sample that is not too old; the last one while another thread takes one. Call it in a thread."""
        last = self._last
        if last is not None and not fresh and self._monotonic() - last.taken < self._age_seconds:
            return last
        if not self._lock.acquire(timeout=FIRST_LOOK_SECONDS if last is None else 0):
            return self._meanwhile()
        try:
            self._last = self._look()
            return self._last
        finally:
            self._lock.release()

    def _meanwhile(self) -> Sample:
        last, now = self._last, self._monotonic()
        if last is None or now - last.taken >= self._age_seconds + STUCK_SECONDS:
            return Sample(taken=now, failure=NOT_ENDED)
        return last

    def _look(self) -> Sample:
        taken = self._monotonic()
        try:
            return look(self._store, taken=taken)
        except errors.TallyError as problem:
            return Sample(taken=taken, failure=type(problem).__name__)


def look(store: Store, *, taken: float) -> Sample:
    """Take a sample of a store."""
    report = store.report()
    grown = store_gauges.growth(store) if has_order(store) else None
    free = report.facts.get("free_bytes")
    size = next((report.facts[name] for name in ("log_bytes", "table_bytes") if name in report.facts), None)
    return Sample(
        taken=taken,
        head=store.head(),
        floor=store.floor(),
        bytes=size,
        free_bytes=free if isinstance(free, int) else None,
        events_per_day=grown.events_per_day if grown is not None else 0.0,
        readonly=store.log.readonly,
        holes=len(store.holes()),
        lags=tuple(gauges(store)) if has_order(store) else (),
        letters=store.log.dead_letters.counts(),
        problems=(*report.problems, *newest_event_problems(store)),
    )


def has_order(store: Store) -> bool:
    """Whether the log has one global order. Otherwise lag and growth have no meaning."""
    return "global_order" in store.log.capabilities


def newest_event_problems(store: Store) -> list[Problem]:
    """The problems of the newest event: of its bytes, and of the index entries by id and by stream.

    It costs three lookups. A verification checks everything.
    """
    if not has_order(store) or not (head := store.head()):
        return []
    page = store.log.read(after=head - 1, until=head, limit=1, over_holes=True, over_pruned=True, unchecked=True)
    found = page.events
    if not found:
        return []
    event = found[0]
    if event.payload is not None and chain.checksum(event.payload) != event.checksum:
        return [Problem("checksum", "the newest payload does not have its checksum", head, event.stream, event.seq)]
    try:
        by_id, by_stream = store.log.find(event.id), store.log.stream_head(event.stream)
    except errors.Damaged as damage:
        return [Problem("link", damage.values["reason"], head, event.stream, event.seq)]
    if by_id is None or by_id.link != event.link or by_stream is None or by_stream.seq < event.seq:
        return [Problem("index", "the index does not lead to the newest event", head, event.stream, event.seq)]
    return []
