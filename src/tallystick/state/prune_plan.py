"""Pruning: the events of a stream before a seq are removed, because a verified snapshot covers them.

A prune is refused without a covering snapshot, past it, not at a step boundary, and past the checkpoint of a consumer.
Without an archive that has the events, it must be accepted that the log itself can no longer rebuild anything from
before the cut. The cut, the control fact and the snapshot at the cut are one commit: a kill leaves all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event, NewEvent
from tallystick.state import shelf
from tallystick.state.archive import Archive
from tallystick.state.fold import Until, replay
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.state.snapshots import control, draft, dropped_facts, end_of, fold, named, retry_on_new_facts
from tallystick.store import facts, iterate
from tallystick.store.maintenance import Cut, Maintenance
from tallystick.store.snapshots import Snapshot
from tallystick.store.store import Store
from tallystick.store.tables import live_places


class Plan(msgspec.Struct, kw_only=True):
    """What a prune would do: how many events it removes, what covers them, what can no longer be rebuilt, and why not.

    `uncovered` are reducers that are known only by snapshots, all of which end before the cut: their state is lost.
    `archived` means that an archive was given, and that it has every event that is removed.
    """

    stream: str
    before: int
    count: int = 0
    cut: Cut | None = None
    snapshots: list[SnapshotEntry] = []
    lost: list[str] = []
    uncovered: list[str] = []
    refusals: list[str] = []
    archived: bool = False
    witness: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no reason against it."""
        return not self.refusals


def plan(
    store: Store,
    stream: str,
    *,
    before: int,
    reducers: Sequence[Reducer] = (),
    snapshot: bool = False,
    accept: bool = False,
    archive: Archive | None = None,
) -> Plan:
    """Check everything that decides on a prune, and change nothing. With `snapshot` the prune makes its own snapshot.

    Events that `archive` has, each looked up there, need no `accept`.
    """
    names.stream_kind(stream)
    found = Plan(stream=stream, before=before)
    last = _last_event(store, found)
    if last is None:
        return found
    mine = [item for item in reducers if item.scope == "stream" and item.wants(stream)]
    found.lost = _lost(store, stream, reducers)
    _check_store_reducers(store, found, reducers, last)
    folded_whole = any(item.scope == "store" and item.wants(stream) for item in reducers)
    _check_coverage(store, found, mine, snapshot=snapshot, folded_whole=folded_whole)
    _check_strangers(store, found, reducers, last)
    _check_steps(found, mine, last)
    _check_checkpoints(store, found, last)
    _check_forks(store, found)
    lacking = _not_archived(store, found, archive)
    found.archived = lacking is None
    found.witness = archive.witness if archive is not None and found.archived else None
    if lacking is not None and not accept:
        found.refusals += [f"the state of {name} would be lost with it" for name in found.uncovered]
        found.refusals.append(
            f"{lacking}, so nothing can be rebuilt from before the cut any more"
            + (f" ({', '.join(found.lost)})" if found.lost else "")
            + "; accept that (--accept)"
        )
    return found


def _not_archived(store: Store, found: Plan, archive: Archive | None) -> str | None:
    """Why the events could not be restored; None if an archive has every one of them."""
    if archive is None:
        return "no archive holds the events"
    after = found.before - 1 - found.count
    for page in iterate.stream_pages(store.log, found.stream, after=after, until=found.before - 1):
        reason = archive.why_not(page)
        if reason is not None:
            return reason
    return None


def _last_event(store: Store, found: Plan) -> Event | None:
    """The last event that is removed, noted in the plan with the cut; None if there is nothing to prune."""
    head, before = store.stream_head(found.stream), store.cut(found.stream)
    gone = before.through if before is not None else 0
    if head is None:
        found.refusals.append("there is no such stream")
    elif names.is_reserved(found.stream):
        found.refusals.append("control facts are never pruned")
    elif not gone + 1 < found.before <= head.seq + 1:
        found.refusals.append(f"it is pruned up to seq {gone} and ends at {head.seq}")
    if found.refusals or head is None:
        return None
    last = store.log.read_stream(found.stream, after=found.before - 2, limit=1)[0]
    first = before.first_position if before else store.log.read_stream(found.stream, limit=1)[0].position
    found.count = last.seq - gone
    found.cut = Cut(
        stream=found.stream,
        through=last.seq,
        link=last.link,
        first_position=first,
        last_position=last.position,
        count=last.seq,
        org=head.org,
    )
    return last


def _check_coverage(store: Store, found: Plan, mine: Sequence[Reducer], *, snapshot: bool, folded_whole: bool) -> None:
    """Every reducer has a good snapshot at or after the cut; without reducers, some snapshot must be good.

    `folded_whole`: a reducer of the whole store folds the stream, and its snapshot is looked at on its own.
    """
    good = [entry for entry in shelf.entries(store, found.stream) if shelf.why_unusable(store, entry) is None]
    by_name = {entry.fact.reducer: entry for entry in sorted(good, key=lambda entry: entry.fact.seq)}
    found.snapshots = [entry for entry in by_name.values() if entry.fact.seq >= found.before - 1]
    wanted = [item.name for item in mine] or list(by_name) or ([] if folded_whole else [""])
    if snapshot and mine:
        wanted = []  # missing snapshots are made with the cut
    for name in wanted:
        entry = by_name.get(name)
        of = f" of reducer {name!r}" if name else ""
        if entry is None:
            found.refusals.append(f"cannot prune without snapshot{of}")
        elif entry.fact.seq < found.before - 1:
            found.refusals.append(f"prune boundary exceeds snapshot coverage{of}, which ends at seq {entry.fact.seq}")
    for item in mine:
        entry = by_name.get(item.name)
        if entry is None or entry.fact.seq < found.before - 1:
            continue
        if not snapshot or shelf.same_code(store, item, entry.fact):
            _check_replay(store, found, item, entry)


def _check_store_reducers(store: Store, found: Plan, reducers: Sequence[Reducer], last: Event) -> None:
    """A reducer that folds the whole store needs a snapshot after the last removed event."""
    for item in reducers:
        if item.scope != "store" or not item.wants(found.stream):
            continue
        state = shelf.start(store, item, "")
        if state is None or state.position < last.position:
            reached = "it has no snapshot" if state is None else f"its snapshot ends at position {state.position}"
            found.refusals.append(f"reducer {item.name!r} folds the whole store, and {reached}")


def _check_strangers(store: Store, found: Plan, reducers: Sequence[Reducer], last: Event) -> None:
    """Reducers that were not given, but have snapshots here: each needs one at or after the cut."""
    given = {item.name for item in reducers}
    for stream, reached in ((found.stream, last.seq), ("", last.position)):
        ends: dict[str, int] = {}
        for entry in shelf.entries(store, stream):
            place = entry.fact.seq if stream else entry.fact.position
            if entry.fact.reducer not in given and shelf.why_unusable(store, entry) is None:
                ends[entry.fact.reducer] = max(ends.get(entry.fact.reducer, 0), place)
        found.uncovered += [f"reducer {name!r}" for name, end in sorted(ends.items()) if end < reached]


def _check_replay(store: Store, found: Plan, item: Reducer, entry: SnapshotEntry) -> None:
    """The covering snapshot must equal a replay from an earlier point."""
    if not shelf.same_code(store, item, entry.fact):
        found.refusals.append(f"the snapshot of reducer {item.name!r} was made by other code")
        return
    try:
        earlier = fold(store, item, found.stream, until=Until(seq=entry.fact.seq - 1))
    except errors.HistoryPruned:  # there is no earlier point: the hash in the chained fact has to do
        return
    if replay(store, item, earlier, until=Until(seq=entry.fact.seq)).hash.hex() != entry.fact.state_hash:
        found.refusals.append(
            f"the snapshot of reducer {item.name!r} at seq {entry.fact.seq} is not what a replay gives"
        )


def _check_forks(store: Store, found: Plan) -> None:
    """Events that a fork refers to stay: they are its only history."""
    for event in iterate.stream(store.log, facts.stream_about(found.stream)):
        if event.type == facts.FORKED:
            child = facts.parse(event, facts.Forked).child
            found.refusals.append(f"{child!r} was forked from it and has its history here")


def _check_steps(found: Plan, mine: Sequence[Reducer], last: Event) -> None:
    for item in mine:
        if not item.ends_step(last):
            found.refusals.append(
                f"seq {last.seq} ({last.type}) does not end a step of reducer {item.name!r}: cut at a step boundary"
            )


def _check_checkpoints(store: Store, found: Plan, last: Event) -> None:
    for name in store.log.checkpoints.names():
        if names.is_reserved(name):  # our own, which continues after any prune
            continue
        saved = store.log.checkpoints.load(name)
        if saved is not None and saved.position < last.position:
            found.refusals.append(f"consumer {name!r} is at position {saved.position}, before {last.position}")
    for place in live_places(store.log.views, store.log.view_tables):
        if place.position < last.position:
            behind = f"is at position {place.position}, before {last.position}"
            found.refusals.append(f"projection {place.projection!r} {behind}")


def _lost(store: Store, stream: str, reducers: Sequence[Reducer]) -> list[str]:
    """Everything that is known to fold this stream: it can no longer start from the first event."""
    known = {f"reducer {entry.fact.reducer}" for entry in shelf.entries(store, stream)}
    known |= {f"reducer {entry.fact.reducer}" for entry in shelf.entries(store, "")}
    known |= {f"reducer {item.name}" for item in reducers if item.scope == "store" or item.wants(stream)}
    known |= {f"projection {place.projection}" for place in live_places(store.log.views, store.log.view_tables)}
    return sorted(known)


def prune(
    store: Store,
    stream: str,
    *,
    before: int,
    reducers: Sequence[Reducer] = (),
    snapshot: bool = False,
    accept: bool = False,
    archive: Archive | None = None,
) -> int:
    """Prune the events of a stream before a seq; returns how many were removed.

    With `snapshot`, the snapshot at the cut is made in the same commit. With reducers it is always made, so that after
    a later erasure the snapshots can be made again.
    """

    def attempt(require: list[tuple[str, int]]) -> int:
        shelf_of_store = end_of(store, facts.STORE_SNAPSHOTS)  # before it is looked at
        found = plan(store, stream, before=before, reducers=reducers, snapshot=snapshot, accept=accept, archive=archive)
        if not found.ok or found.cut is None:
            raise errors.PruneRefused(stream=stream, before=before, reason="; ".join(found.refusals))
        made = _at_cut(store, found, reducers)
        events = [named(store, item, fact) for item, fact in made] + [_fact(store, found, made, accept=accept)]
        if next(shelf.entries(store, ""), None) is not None:
            # An erasure that drops a snapshot of the store, on which this prune relies, must notice.
            events += dropped_facts(store, "", (), f"{stream} was pruned up to seq {before - 1}")
        both = Maintenance(cuts=(found.cut,), snapshots=tuple(item for item, _ in made))
        store.record(events, require=[*require, (facts.STORE_SNAPSHOTS, shelf_of_store)], maintenance=both)
        return found.count

    return retry_on_new_facts(store, stream, attempt)


def _is_mixed(store: Store, found: Plan, org: str) -> bool:
    """Whether some of the removed events do not name the stream's org: later nobody can tell."""
    removed = iterate.stream(store.log, found.stream, after=found.before - 1 - found.count, until=found.before - 1)
    return any(event.about.org != org for event in removed)


def _at_cut(store: Store, found: Plan, reducers: Sequence[Reducer]) -> list[tuple[Snapshot, facts.Snapshotted]]:
    """Full snapshots at exactly the cut, for the reducers that have none there."""
    there = [entry.fact for entry in found.snapshots if entry.fact.seq == found.before - 1]
    made = []
    for item in reducers:
        if item.scope != "stream" or not item.wants(found.stream):
            continue
        if not any(shelf.same_code(store, item, fact) for fact in there):
            state = fold(store, item, found.stream, until=Until(seq=found.before - 1))
            made.append(draft(store, item, state, incremental=False, protect=False))
    return made


def _fact(
    store: Store, found: Plan, made: list[tuple[Snapshot, facts.Snapshotted]], *, accept: bool
) -> tuple[str, NewEvent]:
    cut = found.cut
    assert cut is not None
    covering = [entry.id.hex() for entry in found.snapshots] + [item.id.hex() for item, _ in made]
    fact = facts.Pruned(
        stream=cut.stream,
        through=cut.through,
        link=cut.link.hex(),
        first_position=cut.first_position,
        last_position=cut.last_position,
        count=cut.count,
        org=cut.org,
        snapshots=covering,
        lost=found.lost,
        accepted=accept,
        archive=found.witness,
        mixed=cut.org is not None and _is_mixed(store, found, cut.org),
    )
    return shelf.facts_stream(cut.stream), control(store, facts.PRUNED, fact)
