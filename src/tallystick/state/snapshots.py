"""Making snapshots: of a stream, of the whole store, full or as a diff; protecting and dropping them.

A snapshot and the control fact that tells of it are one commit. The commit requires that no other fact about the
stream was recorded since the fold began: so a snapshot never brings back a payload that was erased meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from tallystick import errors
from tallystick.event import chain, ids
from tallystick.event.model import NewEvent
from tallystick.state import diffs, shelf
from tallystick.state.fold import (
    END,
    State,
    Until,
    check_state,
    check_subject,
    initial_state,
    replay,
    replay_to_damage,
)
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.store import facts, iterate
from tallystick.store.maintenance import Maintenance
from tallystick.store.snapshots import DIFF, FULL, Snapshot
from tallystick.store.store import Store

ATTEMPTS_MAX = 10
RECENT = 100
SET_MEMBERS_MAX = 5_000
DROPPED_MAX = 5_000
T = TypeVar("T")


def fold(
    store: Store,
    reducer: Reducer,
    stream: str = "",
    *,
    until: Until = END,
    snapshots: bool = True,
    degraded: bool = False,
) -> State:
    """The state of a stream (or, with a reducer of scope "store", of the whole log), from the latest usable snapshot.

    Without `snapshots` the fold starts at the first event; if that was pruned, it raises `HistoryPruned`. A damaged
    range raises `Damaged`. With `degraded` the result is the state before the damage, from the newest usable snapshot,
    and `damage` says what is missing.
    """
    check_subject(store, reducer, stream, until)
    begin = shelf.start(store, reducer, stream, until=until) if snapshots else None
    folded = replay_to_damage if degraded else replay
    try:
        return folded(store, reducer, begin or initial_state(reducer, stream), until=until)
    except errors.HistoryPruned:  # pruned since the snapshot was looked up: there is one at the cut
        again = shelf.start(store, reducer, stream, until=until) if snapshots else None
        if again is None or (begin is not None and again.snapshot == begin.snapshot):
            raise
        return folded(store, reducer, again, until=until)


def make(
    store: Store,
    reducer: Reducer,
    stream: str = "",
    *,
    until: Until = END,
    protect: bool = False,
    incremental: bool = True,
) -> SnapshotEntry | None:
    """Snapshot a stream or the store; None if it has no events. If one exists at that place, it is returned."""

    return keep(
        store,
        reducer,
        stream,
        lambda: fold(store, reducer, stream, until=until),
        protect=protect,
        incremental=incremental,
    )


def keep(
    store: Store,
    reducer: Reducer,
    stream: str,
    folded: Callable[[], State],
    *,
    protect: bool = False,
    incremental: bool = True,
) -> SnapshotEntry | None:
    """Snapshot the state from `folded`, which is called again if a fact about the stream was recorded meanwhile."""

    def attempt(require: list[tuple[str, int]]) -> SnapshotEntry | None:
        state = folded()
        if state.position == 0:
            return None
        existing = _existing(store, reducer, state)
        if existing is not None and (incremental or existing.fact.kind == FULL):
            return _protected(store, existing) if protect else existing
        made, fact = draft(store, reducer, state, incremental=incremental, protect=protect)
        store.record([named(store, made, fact)], require=require, maintenance=Maintenance(snapshots=(made,)))
        return SnapshotEntry(made.id, fact, made.made, protect)

    return retry_on_new_facts(store, stream, attempt)


def retry_on_new_facts(store: Store, stream: str, attempt: Callable[[list[tuple[str, int]]], T]) -> T:
    """Do something that requires that no new fact about a stream is recorded. If one was, try again, with a bound."""
    name = shelf.facts_stream(stream)
    for left in range(ATTEMPTS_MAX - 1, -1, -1):
        head = store.stream_head(name)
        try:
            return attempt([(name, head.seq if head is not None else 0)])
        except errors.Conflict:
            if not left:
                raise
    raise AssertionError("unreachable")


def end_of(store: Store, stream: str) -> int:
    """The last seq of a stream, 0 if there is none."""
    head = store.stream_head(stream)
    return head.seq if head is not None else 0


def _existing(store: Store, reducer: Reducer, state: State) -> SnapshotEntry | None:
    """A usable snapshot by the same code at the same place, if it is among the last hundred."""
    for entry in islice(shelf.entries(store, state.stream), RECENT):
        if entry.fact.position == state.position and shelf.same_code(store, reducer, entry.fact):
            return entry if shelf.why_unusable(store, entry) is None else None
    return None


def _protected(store: Store, entry: SnapshotEntry) -> SnapshotEntry:
    protect(store, entry.fact.stream, entry.id)
    return msgspec.structs.replace(entry, protected=True)


def draft(
    store: Store, reducer: Reducer, state: State, *, incremental: bool, protect: bool
) -> tuple[Snapshot, facts.Snapshotted]:
    """A snapshot of a state and its fact, not yet recorded."""
    whole = check_state(reducer, state)
    base, body = _diff(store, reducer, state, whole) if incremental else (None, None)
    since = 0 if base is None else state.seq - base.fact.seq if state.stream else state.position - base.fact.position
    now = store.clock()
    made = Snapshot(
        id=ids.default.mint(1, time_ns=now)[0],
        stream=state.stream,
        seq=state.seq,
        position=state.position,
        link=state.link,
        reducer=reducer.name,
        reducer_version=reducer.version,
        upcasters=shelf.upcasters_of(store, reducer),
        state_hash=chain.checksum(whole),
        made=now,
        body=whole if body is None else body,
        kind=FULL if body is None else DIFF,
        base=None if base is None else base.id,
        last_event_id=state.event_id,
        events_since_base=since,
    )
    return made, fact_of(made, latest=state.latest, protect=protect)


def _diff(store: Store, reducer: Reducer, state: State, whole: bytes) -> tuple[SnapshotEntry | None, bytes | None]:
    """The newest full snapshot that a diff can start from, and the diff; nothing if the whole state is better."""
    for entry in shelf.entries(store, state.stream):
        if entry.fact.position > state.position:  # an erasure between the two would drop the base, not the diff
            continue
        if entry.fact.kind == FULL and shelf.same_code(store, reducer, entry.fact):
            base = shelf.body_of(store, entry) if shelf.why_unusable(store, entry) is None else None
            found = diffs.patch(base, whole) if base is not None else None
            return (entry, found) if found is not None else (None, None)
    return None, None


def fact_of(made: Snapshot, *, latest: int, protect: bool) -> facts.Snapshotted:
    """The control fact of a snapshot."""
    return facts.Snapshotted(
        stream=made.stream,
        seq=made.seq,
        position=made.position,
        link=made.link.hex(),
        reducer=made.reducer,
        reducer_version=made.reducer_version,
        upcasters=made.upcasters.hex(),
        state_hash=made.state_hash.hex(),
        body_hash=chain.checksum(made.body).hex(),
        body_bytes=len(made.body),
        kind=made.kind,
        latest=latest,
        base=made.base.hex() if made.base is not None else None,
        last_event_id=made.last_event_id.hex(),
        protected=protect,
    )


def named(store: Store, made: Snapshot, fact: facts.Snapshotted) -> tuple[str, NewEvent]:
    """The control fact of a snapshot as an event: its id is the snapshot's."""
    return shelf.facts_stream(made.stream), control(store, facts.SNAPSHOTTED, fact, id=made.id, time=made.made)


def control(store: Store, type_: str, fact: facts.Fact, **fields: Any) -> NewEvent:
    """A control event about a stream, with the stream's org."""
    head = store.stream_head(fact.stream) if fact.stream else None
    meta = {"org": head.org} if head is not None and head.org is not None else None
    return NewEvent(type_, fact.payload, meta=meta, **fields)


def protect(store: Store, stream: str, snapshot: bytes, *, protected: bool = True) -> None:
    """Protect a snapshot from retention, or lift that."""
    entry = next((entry for entry in shelf.entries(store, stream) if entry.id == snapshot), None)
    if entry is None:
        raise errors.SnapshotUnusable(snapshot=snapshot.hex(), reason=f"{stream or 'the store'} has no such snapshot")
    if entry.protected != protected:
        fact = facts.SnapshotProtected(stream=stream, snapshot=snapshot.hex(), protected=protected)
        store.record([(shelf.facts_stream(stream), control(store, facts.SNAPSHOT_PROTECTED, fact))])


def drop(store: Store, stream: str, dropped: Iterable[bytes], *, reason: str) -> None:
    """Drop snapshots of a stream; retention decides which. A snapshot that was protected meanwhile stays."""

    def attempt(require: list[tuple[str, int]]) -> None:
        kept = {entry.id for entry in shelf.entries(store, stream) if entry.protected}
        gone = tuple(id_ for id_ in wanted if id_ not in kept)
        if gone:
            facts_of = dropped_facts(store, stream, gone, reason)
            store.record(facts_of, require=require, maintenance=Maintenance(dropped_snapshots=gone))

    wanted = tuple(dropped)
    retry_on_new_facts(store, stream, attempt)


def dropped_facts(store: Store, stream: str, gone: Sequence[bytes], reason: str) -> list[tuple[str, NewEvent]]:
    """The facts that snapshots of a stream were dropped: several, because an event has its limits.

    If none was dropped, the fact is only a mark. A reader has to skip many marks, so now and then one lists all
    snapshots. The list is right, because a mark is recorded only if no other fact was recorded in between.
    """
    found = []
    standing = None if gone else shelf.listed_snapshots(store, stream)
    for first in range(0, max(len(gone), 1), DROPPED_MAX):
        part = [id_.hex() for id_ in gone[first : first + DROPPED_MAX]]
        fact = facts.SnapshotsDropped(stream=stream, snapshots=part, reason=reason, standing=standing)
        found.append((shelf.facts_stream(stream), control(store, facts.SNAPSHOT_DROPPED, fact)))
    return found


# --- the whole store ------------------------------------------------------------------------------------------------


class Restored(msgspec.Struct, frozen=True):
    """The states of a snapshot of the whole store, by reducer: one state, or with scope "stream" one per stream."""

    position: int
    states: dict[str, Any]


def make_all(store: Store, reducers: Iterable[Reducer], *, protect: bool = False) -> bytes:
    """Snapshot every reducer at the current head; returns the id of the set."""
    position = store.head()
    until = Until(position=position)
    members: list[str] = []
    for item in reducers:
        for stream in _subjects(store, item):
            entry = make(store, item, stream, until=until, protect=protect)
            if entry is not None:
                members.append(entry.id.hex())
    size = int(store.report().facts.get("log_bytes", 0))
    return _record_set(store, members, position=position, log_bytes=size)


def _record_set(store: Store, members: list[str], *, position: int, log_bytes: int) -> bytes:
    """Record a set, in parts that refer to the part before, because the size of an event is limited."""
    before: str | None = None
    events = []
    for first in range(0, max(len(members), 1), SET_MEMBERS_MAX):
        id_ = ids.default.mint(1, time_ns=store.clock())[0]
        fact = facts.SnapshotSet(
            stream="",
            position=position,
            snapshots=members[first : first + SET_MEMBERS_MAX],
            log_bytes=log_bytes,
            before=before,
        )
        events.append((facts.STORE_SNAPSHOTS, NewEvent(facts.SNAPSHOT_SET, fact.payload, id=id_)))
        before = id_.hex()
    store.record(events)
    return id_


def restore_all(store: Store, reducers: Iterable[Reducer], id_: bytes) -> Restored:
    """The checked states of a set. A member that is not usable is refused, never replaced by a guess."""
    by_name = {item.name: item for item in reducers}
    states: dict[str, Any] = {}
    position, members = _set(store, id_)
    for member in members:
        state, item = _member(store, by_name, bytes.fromhex(member))
        if item.scope == "store":
            states[item.name] = state.value
        else:
            states.setdefault(item.name, {})[state.stream] = state.value
    return Restored(position, states)


def _set(store: Store, id_: bytes) -> tuple[int, list[str]]:
    """The position and the members of a set, from its last part to its first."""
    members: list[str] = []
    part: bytes | None = id_
    position = 0
    while part is not None:
        event = store.log.find(part)
        if event is None or event.type != facts.SNAPSHOT_SET:
            raise errors.SnapshotUnusable(snapshot=id_.hex(), reason="there is no such set of snapshots")
        fact = facts.parse(event, facts.SnapshotSet)
        members += fact.snapshots
        position = fact.position
        part = bytes.fromhex(fact.before) if fact.before is not None else None
    return position, members


def _member(store: Store, by_name: dict[str, Reducer], id_: bytes) -> tuple[State, Reducer]:
    event = store.log.find(id_)
    if event is None or event.type != facts.SNAPSHOTTED:
        raise errors.SnapshotUnusable(snapshot=id_.hex(), reason="no control fact names it")
    entry = SnapshotEntry(id_, facts.parse(event, facts.Snapshotted), event.time, False)
    item = by_name.get(entry.fact.reducer)
    if item is None or not shelf.same_code(store, item, entry.fact):
        reason = f"reducer {entry.fact.reducer!r} version {entry.fact.reducer_version} is not registered"
        raise errors.SnapshotUnusable(snapshot=id_.hex(), reason=reason)
    state = shelf.opened(store, item, entry)
    if state is None:
        reason = shelf.why_dropped(store, entry) or shelf.why_unusable(store, entry) or "it changed"
        raise errors.SnapshotUnusable(snapshot=id_.hex(), reason=reason)
    return state, item


def _subjects(store: Store, item: Reducer) -> Iterator[str]:
    """What a reducer folds: the store, or every stream of its kinds."""
    if item.scope == "store":
        yield ""
        return
    yield from streams_of(store, item)


def streams_of(store: Store, item: Reducer) -> Iterator[str]:
    """The streams that a reducer folds, in order of name."""
    return (info.stream for info in iterate.streams(store.log) if item.wants(info.stream))
