"""The snapshots of one stream or of the store, as the control facts list them, newest first; and which may be used.

A snapshot is used only if a fact of this log names it, the hashes of its body and its state are those in the fact, the
link in the fact is the one in the log, and the code is the same. All others are skipped: a damaged or foreign snapshot
never changes a state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain
from tallystick.event.model import Event
from tallystick.state import diffs
from tallystick.state.fold import END, State, Until
from tallystick.state.reducer import Reducer
from tallystick.store import facts, iterate
from tallystick.store.store import Store

_PAGE = 100
LISTED_MAX = 1000  # in one fact


class SnapshotEntry(msgspec.Struct, frozen=True):
    """One snapshot: its id, its fact, when the store made it, and whether it is protected."""

    id: bytes
    fact: facts.Snapshotted
    made: int
    protected: bool


def facts_stream(stream: str) -> str:
    """The stream of the facts about a stream, or about the store."""
    return facts.stream_about(stream) if stream else facts.STORE_SNAPSHOTS


def facts_backwards(store: Store, stream: str) -> Iterator[Event]:
    """The control facts about a stream, the newest first."""
    name = facts_stream(stream)
    head = store.stream_head(name)
    last = head.seq if head is not None else 0
    while last > 0:
        first = max(last - _PAGE, 0)
        try:
            yield from store.log.read_stream(name, after=first, until=last, limit=_PAGE)[::-1]
        except errors.Damaged:  # the facts that can be read are still good
            yield from _one_by_one(store, name, first, last)
        last = first


def _one_by_one(store: Store, name: str, first: int, last: int) -> Iterator[Event]:
    for seq in range(last, first, -1):
        try:
            found = iterate.at(store.log, name, seq)
        except errors.Damaged:
            continue
        if found is not None:
            yield found


def entries(store: Store, stream: str) -> Iterator[SnapshotEntry]:
    """The snapshots of a stream that were not dropped, the newest fact first, up to a fact that lists the rest."""
    dropped: set[str] = set()
    protections: dict[str, bool] = {}
    for event in facts_backwards(store, stream):
        try:
            if event.type == facts.SNAPSHOT_DROPPED:
                gone = facts.parse(event, facts.SnapshotsDropped)
                dropped.update(gone.snapshots)
                if gone.standing is not None:
                    left = gone.standing.items()
                    yield from _listed(
                        store, stream, {id_: protections.get(id_, kept) for id_, kept in left if id_ not in dropped}
                    )
                    return
            elif event.type == facts.SNAPSHOT_PROTECTED:
                given = facts.parse(event, facts.SnapshotProtected)
                protections.setdefault(given.snapshot, given.protected)
            elif event.type == facts.SNAPSHOTTED and event.id.hex() not in dropped:
                fact = facts.parse(event, facts.Snapshotted)
                if fact.stream != stream:  # a fact in the wrong stream, which verification reports
                    continue
                protected = protections.get(event.id.hex(), fact.protected)
                yield SnapshotEntry(event.id, fact, event.time, protected)
        except msgspec.ValidationError:  # verification reports it; here it is not a snapshot
            continue


def _listed(store: Store, stream: str, listed: dict[str, bool]) -> Iterator[SnapshotEntry]:
    """The snapshots that a fact lists, each by its own fact, the newest first: ids rise with time."""
    for id_, protected in sorted(listed.items(), reverse=True):
        with suppress(errors.Damaged, msgspec.ValidationError, ValueError):  # as above; ValueError: not hex
            event = store.log.find(bytes.fromhex(id_))
            if event is not None and event.type == facts.SNAPSHOTTED:
                fact = facts.parse(event, facts.Snapshotted)
                if fact.stream == stream:
                    yield SnapshotEntry(event.id, fact, event.time, protected)


def listed_snapshots(store: Store, stream: str) -> dict[str, bool] | None:
    """What the next fact should list, so that no reader goes far back; None while another one does, or for too many."""
    recent = list(islice(facts_backwards(store, stream), _PAGE))
    if len(recent) < _PAGE or any("standing" in (event.data or {}) for event in recent):
        return None
    found = {entry.id.hex(): entry.protected for entry in islice(entries(store, stream), LISTED_MAX + 1)}
    return found if len(found) <= LISTED_MAX else None


def why_dropped(store: Store, entry: SnapshotEntry) -> str | None:
    """Why a snapshot was dropped, as the control fact says; None if it was not."""
    for event in facts_backwards(store, entry.fact.stream):
        if event.id == entry.id:
            return None
        if event.type == facts.SNAPSHOT_DROPPED:
            fact = facts.parse(event, facts.SnapshotsDropped)
            if entry.id.hex() in fact.snapshots:
                return f"it was dropped: {fact.reason}"
    return None


def upcasters_of(store: Store, reducer: Reducer) -> bytes:
    """The digest of the upcasters of a reducer's events."""
    return store.catalog.upcaster_digest(reducer.types or None)


def same_code(store: Store, reducer: Reducer, fact: facts.Snapshotted | facts.Sealed) -> bool:
    """Whether a fact was made by this reducer in this version, through these upcasters."""
    return (fact.reducer, fact.reducer_version, fact.upcasters) == (
        reducer.name,
        reducer.version,
        upcasters_of(store, reducer).hex(),
    )


def start(store: Store, reducer: Reducer, stream: str, *, until: Until = END) -> State | None:
    """The state of the latest snapshot that may be used for a fold up to `until`; None if there is none.

    The latest is the one with the highest seq among the last hundred that fit. If a later one was recorded earlier,
    the fold only takes longer.
    """
    upcasters = upcasters_of(store, reducer).hex()
    fitting = (entry for entry in entries(store, stream) if _fits(reducer, entry.fact, upcasters, until))
    while chosen := list(islice(fitting, _PAGE)):
        chosen.sort(key=lambda entry: (entry.fact.seq, entry.fact.position), reverse=True)
        for entry in chosen:
            found = opened(store, reducer, entry)
            if found is not None:
                return found
    return None


def _fits(reducer: Reducer, fact: facts.Snapshotted, upcasters: str, until: Until) -> bool:
    if fact.reducer != reducer.name or fact.upcasters != upcasters:
        return False
    older = fact.reducer_version < reducer.version and reducer.migrate is not None
    if fact.reducer_version != reducer.version and not older:
        return False
    return (
        (until.seq is None or fact.seq <= until.seq)
        and (until.position is None or fact.position <= until.position)
        and (until.time is None or fact.latest <= until.time)
    )


def opened(store: Store, reducer: Reducer, entry: SnapshotEntry) -> State | None:
    """The checked state of a snapshot, migrated if an older version of the reducer made it; None if it is unusable."""
    fact, body = entry.fact, body_of(store, entry)  # loaded once: it may be dropped at any moment
    if body is None or _why_unusable(store, fact, body) is not None:
        return None
    value = canonical.decode(body)
    if fact.reducer_version != reducer.version:
        assert reducer.migrate is not None
        try:
            value = reducer.migrate(value, fact.reducer_version)
        except Exception as problem:
            reason = f"migrate from version {fact.reducer_version}: {type(problem).__name__}: {problem}"
            raise errors.ReducerFailed(name=reducer.name, stream=fact.stream, seq=fact.seq, reason=reason) from problem
    return State(
        value=value,
        stream=fact.stream,
        seq=fact.seq,
        position=fact.position,
        link=bytes.fromhex(fact.link),
        latest=fact.latest,
        event_id=bytes.fromhex(fact.last_event_id),
        snapshot=entry.id,
    )


def why_unusable(store: Store, entry: SnapshotEntry) -> str | None:
    """What is wrong with a snapshot; None if nothing is."""
    return _why_unusable(store, entry.fact, body_of(store, entry))


def _why_unusable(store: Store, fact: facts.Snapshotted, body: bytes | None) -> str | None:
    if body is None:
        return "its body is missing, damaged or changed"
    if chain.checksum(body).hex() != fact.state_hash:
        return "its state does not have the hash in its control fact"
    if not _is_in_the_log(store, fact):
        return "the log does not have the link that the snapshot was made at"
    return None


def body_of(store: Store, entry: SnapshotEntry) -> bytes | None:
    """The whole state of a snapshot as canonical JSON, a diff applied to its base; None if a part is unusable."""
    body = _intact(store, entry.id, entry.fact)
    if body is None or entry.fact.kind == "full":
        return body
    base_id = bytes.fromhex(entry.fact.base or "")
    named = store.log.find(base_id)
    if named is None or named.type != facts.SNAPSHOTTED:
        return None
    base = _intact(store, base_id, facts.parse(named, facts.Snapshotted))
    return None if base is None else diffs.apply(base, body)


def _intact(store: Store, id_: bytes, fact: facts.Snapshotted) -> bytes | None:
    body = store.log.snapshots.load(id_, bytes_max=fact.body_bytes)
    return body if body is not None and chain.checksum(body).hex() == fact.body_hash else None


def _is_in_the_log(store: Store, fact: facts.Snapshotted) -> bool:
    """Whether the log has the link of a fact at its place, or was pruned up to exactly there."""
    if not fact.stream:
        page = store.log.read(after=fact.position - 1, until=fact.position, limit=1, over_pruned=True, over_holes=True)
        if page.holes:
            return True
        gone = fact.position <= store.floor()
        return page.events[0].link.hex() == fact.link if page.events else gone
    cut = store.cut(fact.stream)
    if cut is not None and fact.seq <= cut.through:
        return fact.seq == cut.through and cut.link.hex() == fact.link
    try:
        found = iterate.at(store.log, fact.stream, fact.seq)
    except errors.Damaged:  # the event lies in a hole: the fact, which is in a chain too, has to do
        return True
    return found is not None and found.link.hex() == fact.link
