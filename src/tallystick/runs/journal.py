"""The log of a run: facts in, state out. Events are written before anything that is derived from them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from tallystick import errors
from tallystick.event.model import Event, NewEvent
from tallystick.runs import facts, snapshot, tables
from tallystick.runs.facts import RunCreated, RunFact
from tallystick.runs.reducer import STATE, at
from tallystick.runs.state import RunReducer, RunState
from tallystick.state import fingerprints, snapshots
from tallystick.state.fold import State
from tallystick.store.capabilities import MAINTENANCE
from tallystick.store.expectation import NO_STREAM
from tallystick.store.facts import Sealed
from tallystick.store.store import Store

PAGE = 2000
DEPTH_MAX = 100
SNAPSHOT_EVENTS = 1000  # between snapshots in the store
SNAPSHOT_EVENTS_MIN = 32
SNAPSHOT_SECONDS = 1.0
SNAPSHOT_PAUSE = 50  # times the duration of the last one

UNREADABLE = (errors.Damaged, errors.RunLogInvalid, errors.HistoryPruned, errors.ForkImpossible)
"""Why the state of an existing run cannot be computed."""


def stream_of(run: str) -> str:
    """The stream of a run."""
    return f"run/{run}"


def pages_of(store: Store, stream: str, *, after: int = 0, until: int | None = None) -> Iterator[list[Event]]:
    """The events of a stream between two seqs, page by page."""
    while page := store.read_stream(stream, after=after, until=until, limit=PAGE):
        yield page  # a short page is not the last one: it may end where damage starts, which the next read reports
        after = page[-1].seq


def events_of(store: Store, stream: str) -> Iterator[Event]:
    """Every event of a stream that was not pruned."""
    cut = store.cut(stream)
    for page in pages_of(store, stream, after=cut.through if cut is not None else 0):
        yield from page


def load(store: Store, run: str, *, until: int | None = None, whole: bool = False) -> RunReducer:
    """The state of a run, from its newest valid snapshot; with `whole` by replay from RUN_CREATED.

    The history that a fork inherited is read from its snapshot, or from its parent's log.
    """
    return _load(store, run, until=until, depth=0, whole=whole)


def _load(store: Store, run: str, *, until: int | None, depth: int, whole: bool) -> RunReducer:
    begun = None if whole else snapshot.newest(store, run, until=until)
    if begun is None:
        return _replayed(store, run, until=until, depth=depth, whole=whole)
    for page in pages_of(store, stream_of(run), after=begun.state.seq, until=until):
        fold(begun, run, page)
    return begun


def _replayed(store: Store, run: str, *, until: int | None, depth: int, whole: bool) -> RunReducer:
    pages = pages_of(store, stream_of(run), until=until)
    begun = next(pages, None)
    if begun is None:
        raise errors.RunNotFound(run=run, url=store.log.url)
    first = _decoded(run, begun[0])
    if not isinstance(first, RunCreated):
        raise errors.RunLogInvalid(run=run, seq=1, reason=f"the first event is {begun[0].type}, not RUN_CREATED")
    reducer = RunReducer(run)
    if first.parent is not None:
        if depth >= DEPTH_MAX:
            raise errors.ForkImpossible(run=run, reason=f"it was forked more than {DEPTH_MAX} times over")
        reducer = inherited(store, run, first.parent, depth=depth, whole=whole)
    for page in chain([begun], pages):
        fold(reducer, run, page)
    return reducer


def _decoded(run: str, event: Event) -> RunFact | None:
    try:
        return facts.decode(event.type, event.payload)
    except errors.SchemaViolation as problem:
        raise errors.RunLogInvalid(run=run, seq=event.seq, reason=problem.message) from problem


def inherited(store: Store, run: str, parent: facts.Parent, *, depth: int = 0, whole: bool = False) -> RunReducer:
    """The state that a fork starts with: its parent's state at the seq, proven by the link."""
    name = parent.stream.removeprefix("run/")
    reducer = _load(store, name, until=parent.seq, depth=depth + 1, whole=whole)
    if (reducer.state.seq, reducer.state.link) != (parent.seq, parent.link):
        reason = f"its parent {name!r} has another history at {parent.seq} than when it was forked"
        raise errors.ForkImpossible(run=run, reason=reason)
    inherited = reducer.state
    inherited.run_id, inherited.seq, inherited.link, inherited.org = run, 0, "", None
    return RunReducer(run, inherited)


def keep_beginning(store: Store, run: str) -> None:
    """Snapshot the state that a fork starts with: its own stream is not enough to fold it."""
    stream = stream_of(run)

    def folded() -> State:
        first = store.read_stream(stream, limit=1)[0]
        return at(load(store, run, until=1), stream, last=first)

    if MAINTENANCE in store.log.capabilities:
        snapshots.keep(store, STATE, stream, folded, protect=True)


def fold(reducer: RunReducer, run: str, events: Sequence[Event]) -> None:
    """Fold events. One that contradicts those before it is refused with its seq."""
    try:
        reducer.fold(events)
    except (LookupError, AttributeError) as problem:
        seq = reducer.state.seq + 1
        raise errors.RunLogInvalid(run=run, seq=seq, reason=f"{type(problem).__name__}: {problem}") from problem
    except errors.SchemaViolation as problem:
        raise errors.RunLogInvalid(run=run, seq=reducer.state.seq + 1, reason=problem.message) from problem


class Journal:
    """The writer of a run. It knows the state without reading it back."""

    def __init__(self, store: Store, run: str, reducer: RunReducer, *, trace_id: str | None = None) -> None:
        self.store = store
        self.run = run
        self.stream = stream_of(run)
        self.reducer = reducer
        self.trace_id = trace_id or secrets.token_hex(16)
        self.span_id = secrets.token_hex(8)
        self.documents = store.log.run_documents
        self.tables = store.log.run_tables
        self._snapshot_seq = reducer.state.seq
        self._kept_seq = reducer.begun_at
        self._seal: Sealed | None = None
        self._snapshot_at = time.monotonic()
        self._snapshot_cost = 0.0

    @property
    def state(self) -> RunState:
        """The state after everything that was recorded."""
        return self.reducer.state

    def record(self, found: Sequence[RunFact | tuple[RunFact, str]]) -> None:
        """Write facts in one commit, then fold them. A fact may come with the span that it belongs to."""
        spanned = [item if isinstance(item, tuple) else (item, self.span_id) for item in found]
        now = self.store.clock()
        events = [
            NewEvent(fact.TYPE, facts.check(fact), meta={"trace_id": self.trace_id, "span_id": span}, time=now)
            for fact, span in spanned
        ]
        expected = self.state.seq or NO_STREAM
        done = self.store.append(self.stream, events, expected=expected)
        for fact, _ in spanned:
            self.reducer.apply(fact, now)
        self.reducer.moved(seq=done.last_seq, link=done.link, time=now)
        if expected == NO_STREAM:
            head = self.store.stream_head(self.stream)
            self.state.org = head.org if head else None

    def save_snapshot(self) -> None:
        """Store what is derived from the events: a snapshot, and the rows of the run's tables."""
        began = time.monotonic()
        if self.documents is not None:
            self.documents.replace(self.run, snapshot.NAME, snapshot.encode(self.state))
        elif self.state.seq - self._kept_seq >= SNAPSHOT_EVENTS:
            snapshots.make(self.store, STATE, self.stream)
            self._kept_seq = self.state.seq
        if self.tables is not None:
            self.tables.put(tables.rows([(self.state, self._seal)]))
        self._snapshot_seq, self._snapshot_at = self.state.seq, time.monotonic()
        self._snapshot_cost = self._snapshot_at - began

    def seal(self) -> None:
        """Seal the current fingerprint of the run."""
        self._seal = snapshot.seal(self.store, self.stream, self.reducer)

    def seal_if_not_sealed(self) -> None:
        """Seal a run if it was killed between its last event and the seal."""
        known = fingerprints.latest(self.store, self.stream, reducer=STATE.name)
        if known is None or known.stale:
            self.seal()
            self.save_snapshot()

    def save_snapshot_if_due(self) -> None:
        """Save a snapshot if the run has doubled since the last one, or after a while: the cost stays small."""
        grown = self.state.seq - self._snapshot_seq
        pause = max(SNAPSHOT_SECONDS, SNAPSHOT_PAUSE * self._snapshot_cost)
        doubled = grown >= max(SNAPSHOT_EVENTS_MIN, self._snapshot_seq)
        if doubled or (grown and time.monotonic() - self._snapshot_at > pause):
            self.save_snapshot()


def trace_of(store: Store, run: str) -> str | None:
    """The trace id of the first event of a run that still exists."""
    cut = store.cut(stream_of(run))
    first = store.read_stream(stream_of(run), after=cut.through if cut is not None else 0, limit=1)
    meta: dict[str, Any] = first[0].metadata if first else {}
    return meta.get("trace_id")
