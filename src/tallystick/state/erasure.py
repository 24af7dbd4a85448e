"""Erasure: the payload of one event is removed permanently. Envelope, checksum, link and signature stay.

Everything that was derived from the payload is removed in the same commit: snapshots that cover it (computed again if
their reducers are given), fingerprints (sealed again, or stale), responses of commands. The checksum stays, and a small
payload can be guessed from it, so events that may have to be erased should have a salt (`salted`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event, NewEvent
from tallystick.state import fingerprints, shelf
from tallystick.state.fold import State, Until, initial_state, replay
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.state.snapshots import control, draft, dropped_facts, end_of, named, retry_on_new_facts
from tallystick.store import facts, iterate
from tallystick.store.idempotency import ERASED_RESPONSE, CommandKey
from tallystick.store.maintenance import Erasure, Maintenance
from tallystick.store.snapshots import Snapshot
from tallystick.store.store import Store
from tallystick.store.tables import live_places
from tallystick.store.views import BY_STREAM, sound_definition

SALT = "salt"
SALT_BYTES = 16


class ErasureResult(msgspec.Struct, frozen=True):
    """What an erasure did: snapshots dropped and made again, fingerprints sealed again, responses erased.

    If `salted` is false, a small payload can be guessed from its checksum, which stays.
    """

    stream: str
    seq: int
    dropped: int
    made: int
    sealed: int
    responses: int
    salted: bool


def salted(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with a random salt, so that it cannot be guessed from its checksum after it was erased."""
    return payload if SALT in payload else payload | {SALT: secrets.token_hex(SALT_BYTES)}


def erase(
    store: Store, stream: str, seq: int, *, reason: str, reducers: Sequence[Reducer] = (), accept: bool = False
) -> ErasureResult:
    """Erase the payload of one event. With `accept`, even if a state from before the cut is lost with a snapshot."""

    def attempt(require: list[tuple[str, int]]) -> ErasureResult:
        event = _event(store, stream, seq)
        shelf_of_store = end_of(store, facts.STORE_SNAPSHOTS)  # before it is looked at
        affected, again = _consequences(store, event, reducers, accept=accept)
        if not accept:
            _require_projections(store, event)
        seals = _seals(store, event, reducers)
        dropped = tuple(entry.id for entry in affected)
        responses = _responses(store, stream, seq)
        erasure = Erasure(stream=stream, seq=seq, position=event.position, id=event.id, checksum=event.checksum)
        store.record(
            _facts(store, erasure, reason, affected, again, seals),
            require=[*require, (facts.STORE_SNAPSHOTS, shelf_of_store)],
            maintenance=Maintenance(
                erasures=(erasure,),
                snapshots=tuple(made for made, _ in again),
                dropped_snapshots=dropped,
                erased_responses=tuple(responses),
            ),
        )
        return ErasureResult(stream, seq, len(dropped), len(again), len(seals), len(responses), _is_salted(event))

    return retry_on_new_facts(store, stream, attempt)


def _is_salted(event: Event) -> bool:
    try:
        return isinstance(event.data, dict) and SALT in event.data
    except errors.Damaged:  # it has a number that cannot be decoded
        return False


def _responses(store: Store, stream: str, seq: int) -> list[CommandKey]:
    """The commands that appended the event and still have a response, which may repeat it."""
    commands = store.log.commands
    found = [(key, commands.load(key)) for key in commands.touching(stream, seq)]
    return [key for key, record in found if record is not None and record.response != ERASED_RESPONSE]


def _event(store: Store, stream: str, seq: int) -> Event:
    names.stream_kind(stream)
    cut = store.cut(stream)
    if cut is not None and seq <= cut.through:
        raise errors.EraseRefused(stream=stream, seq=seq, reason="it was pruned")
    found = iterate.at(store.log, stream, seq)
    if found is None:
        raise errors.EraseRefused(stream=stream, seq=seq, reason="there is no such event")
    if found.payload is None:
        raise errors.EraseRefused(stream=stream, seq=seq, reason="it is erased already")
    if names.is_reserved(stream):
        raise errors.EraseRefused(stream=stream, seq=seq, reason="control facts are never erased")
    return found


def _consequences(
    store: Store, event: Event, reducers: Sequence[Reducer], *, accept: bool
) -> tuple[list[SnapshotEntry], list[tuple[Snapshot, facts.Snapshotted]]]:
    """The snapshots that contain the payload, and those that replace them."""
    own = [entry for entry in shelf.entries(store, event.stream) if entry.fact.seq >= event.seq]
    whole = [entry for entry in shelf.entries(store, "") if entry.fact.position >= event.position]
    again = []
    for item in reducers:
        for entry in _latest(own if item.scope == "stream" else whole, item):
            state = _fold_without(store, item, entry, event)
            if state is not None:
                again.append(draft(store, item, state, incremental=False, protect=entry.protected))
    if not accept:
        _require_rest(store, event, own, whole, {fact.reducer for _, fact in again})
    return own + whole, again


def _latest(entries: list[SnapshotEntry], item: Reducer) -> list[SnapshotEntry]:
    """The affected snapshots of a reducer that are made again: the latest, and those that are protected."""
    mine = sorted(
        (entry for entry in entries if entry.fact.reducer == item.name), key=lambda entry: entry.fact.position
    )
    return [entry for entry in mine if entry.protected or entry is mine[-1]]


def _fold_without(store: Store, item: Reducer, entry: SnapshotEntry, event: Event) -> State | None:
    """The state at the place of a snapshot, as if the event were erased; None if it can no longer be computed."""
    place = Until(position=entry.fact.position) if item.scope == "store" else Until(seq=entry.fact.seq)
    before = Until(position=event.position - 1) if item.scope == "store" else Until(seq=event.seq - 1)
    start = shelf.start(store, item, entry.fact.stream, until=before) or initial_state(item, entry.fact.stream)
    try:
        return replay(store, item, start, until=place, erased={event.id})
    except errors.HistoryPruned:
        return None


def _require_rest(
    store: Store, event: Event, own: list[SnapshotEntry], whole: list[SnapshotEntry], again: set[str]
) -> None:
    """Refuse if the state from before a cut is only in snapshots that are dropped and cannot be made again."""
    cut, floor = store.cut(event.stream), store.floor()
    alone: set[str] = set()
    if cut is not None:
        left = [item for item in shelf.entries(store, event.stream) if cut.through <= item.fact.seq < event.seq]
        alone |= _without_rest(store, own, left)
    if floor:
        behind = [item for item in shelf.entries(store, "") if item.fact.position >= floor]
        left = [item for item in behind if item.fact.position < event.position]
        alone |= _without_rest(store, [item for item in whole if item.fact.position >= floor], left)
    if alone - again:
        reason = (
            f"the snapshots of {', '.join(sorted(alone - again))} hold what was pruned, and cannot be computed without "
            "the payload: give their reducers, or accept that their state from before the cut is lost"
        )
        raise errors.EraseRefused(stream=event.stream, seq=event.seq, reason=reason)


def _require_projections(store: Store, event: Event) -> None:
    """Refuse if rows that contain the payload would have to be folded again from pruned events."""
    stuck = []
    for place in live_places(store.log.views, store.log.view_tables):
        made = sound_definition(store.log.views, place)
        if made is None:  # its rows are damaged, and all of them are dropped
            continue
        pruned = store.cut(event.stream) is not None if made.key == BY_STREAM else store.floor() > 0
        if pruned and event.type in made.types and place.position >= event.position:
            stuck.append(place.projection)
    if stuck:
        reason = (
            f"projection {', '.join(stuck)} would have to fold pruned events again, and could not continue: "
            "accept that, and discard or replace it"
        )
        raise errors.EraseRefused(stream=event.stream, seq=event.seq, reason=reason)


def _without_rest(store: Store, gone: list[SnapshotEntry], left: list[SnapshotEntry]) -> set[str]:
    """The reducers of dropped snapshots of which no usable one by the same code is left."""
    kept = {_code(entry) for entry in left if shelf.why_unusable(store, entry) is None}
    return {entry.fact.reducer for entry in gone if _code(entry) not in kept}


def _code(entry: SnapshotEntry) -> tuple[str, int, str]:
    return entry.fact.reducer, entry.fact.reducer_version, entry.fact.upcasters


def _seals(store: Store, event: Event, reducers: Sequence[Reducer]) -> list[facts.Sealed]:
    """New seals for the fingerprints over the payload, by the given reducers."""
    found = []
    for item in reducers:
        if item.scope != "stream" or not item.wants(event.stream):
            continue
        seal = fingerprints.latest(store, event.stream, reducer=item.name)
        if seal is None or seal.stale or not shelf.same_code(store, item, seal.fact):
            continue
        start = shelf.start(store, item, event.stream, until=Until(seq=event.seq - 1)) or initial_state(
            item, event.stream
        )
        try:
            state = replay(store, item, start, until=Until(seq=seal.fact.seq), erased={event.id})
        except errors.HistoryPruned:
            continue
        found.append(fingerprints.sealed_fact(store, item, state))
    return found


def _facts(
    store: Store,
    erasure: Erasure,
    reason: str,
    affected: list[SnapshotEntry],
    again: list[tuple[Snapshot, facts.Snapshotted]],
    seals: list[facts.Sealed],
) -> list[tuple[str, NewEvent]]:
    """The control facts of an erasure, in the order in which a reader must read them."""
    erased = facts.Erased(
        stream=erasure.stream,
        seq=erasure.seq,
        position=erasure.position,
        event=erasure.id.hex(),
        checksum=erasure.checksum.hex(),
        reason=reason,
    )
    found = [(shelf.facts_stream(erasure.stream), control(store, facts.ERASED, erased))]
    # Always one about the store: a snapshot of it that is being made at the same time must notice, and start again.
    for stream in dict.fromkeys(["", *(entry.fact.stream for entry in affected)]):
        gone = [entry.id for entry in affected if entry.fact.stream == stream]
        found += dropped_facts(store, stream, gone, f"seq {erasure.seq} of {erasure.stream} was erased")
    found += [named(store, made, fact) for made, fact in again]
    found += [(shelf.facts_stream(fact.stream), fingerprints.as_event(store, fact)) for fact in seals]
    return found
