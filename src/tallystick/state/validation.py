"""Validation of derived data: every snapshot and fingerprint against the log, and against each other.

Snapshots and fingerprints of the given reducers are compared with a replay, with invariants, and with their neighbours.
Those by other code are not comparable, and are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tallystick import errors
from tallystick.state import fingerprints, shelf
from tallystick.state.fold import State, Until, initial_state, replay
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.state.snapshots import streams_of
from tallystick.store.events import Problem
from tallystick.store.store import Store


def problems(
    store: Store, reducers: Sequence[Reducer], *, progress: Callable[[int], None] = lambda done: None
) -> Iterator[Problem]:
    """Everything that is wrong with the snapshots and fingerprints of a store. `progress` counts streams."""
    done = 0
    for item in reducers:
        for stream in [""] if item.scope == "store" else streams_of(store, item):
            yield from of_stream(store, item, stream)
            done += 1
            progress(done)


def of_stream(store: Store, item: Reducer, stream: str) -> Iterator[Problem]:
    """What is wrong with a reducer's snapshots and fingerprint of one stream."""
    mine = [entry for entry in shelf.entries(store, stream) if shelf.same_code(store, item, entry.fact)]
    mine.sort(key=lambda entry: entry.fact.position)
    usable: list[SnapshotEntry] = []
    for entry in mine:
        reason = why_unusable(store, entry)
        if reason is None:
            usable.append(entry)
        else:
            yield _problem(entry, reason)
    yield from _replayed(store, item, stream, usable)
    if stream:
        yield from _fingerprint(store, item, stream)


def why_unusable(store: Store, entry: SnapshotEntry) -> str | None:
    """What is wrong with a snapshot. One from before the cut is only out of use, which is not a problem."""
    cut = store.cut(entry.fact.stream) if entry.fact.stream else None
    if cut is not None and entry.fact.seq < cut.through:
        return None if shelf.body_of(store, entry) is not None else "its body is missing, damaged or changed"
    return shelf.why_unusable(store, entry)


def _replayed(store: Store, item: Reducer, stream: str, usable: list[SnapshotEntry]) -> Iterator[Problem]:
    """Fold once along all snapshots: each must equal the replay at its place, and lead to the next one."""
    cut = store.cut(stream) if stream else None
    state: State | None = initial_state(item, stream)
    if cut is not None or (not stream and store.floor()):
        state = None  # the first events are gone: start with the first snapshot after them
    for entry in usable:
        if cut is not None and entry.fact.seq < cut.through:
            continue
        if not stream and entry.fact.position < store.floor():
            continue
        if state is not None:
            try:
                state = replay(store, item, state, until=_place(entry))
            except errors.ReducerFailed as problem:
                yield _problem(entry, problem.message)
                return
            if state.hash.hex() != entry.fact.state_hash:
                yield _problem(entry, "it is not what a replay of the events gives")
        state = shelf.opened(store, item, entry)
        for broken in item.broken_invariants(state.value) if state is not None else ():
            yield _problem(entry, f"an invariant is broken: {broken}")


def _place(entry: SnapshotEntry) -> Until:
    return Until(seq=entry.fact.seq) if entry.fact.stream else Until(position=entry.fact.position)


def _fingerprint(store: Store, item: Reducer, stream: str) -> Iterator[Problem]:
    if fingerprints.latest(store, stream, reducer=item.name) is None:
        return
    found = fingerprints.compare(store, item, stream)
    if not found.equal:
        reason = "full replay, snapshot + tail and the sealed fingerprint do not agree"
        yield Problem("fingerprint", reason, 0, stream, found.seq)


def _problem(entry: SnapshotEntry, reason: str) -> Problem:
    place = 0 if entry.fact.stream else entry.fact.position
    return Problem("snapshot", f"snapshot {entry.id.hex()}: {reason}", place, entry.fact.stream, entry.fact.seq)
