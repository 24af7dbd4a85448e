"""Retention: drops snapshots, prunes events that are old and covered, and gives space back to the disk.

Ages count from the time at which this store recorded an event, never from the event's own time, which an import or a
peer may have set to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from tallystick import errors
from tallystick.event import limits, names
from tallystick.state import shelf
from tallystick.state.archive import Archive
from tallystick.state.policy import DAY, Policy
from tallystick.state.prune_plan import Plan, plan, prune
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.state.snapshots import drop
from tallystick.store import iterate
from tallystick.store.maintenance import Reclaimed
from tallystick.store.store import Store

COMMANDS_FORGOTTEN_MAX = 10_000


class RetentionAction(msgspec.Struct, frozen=True):
    """One thing that retention did, would do, or could not do, and why not."""

    what: str
    stream: str
    count: int
    why_not: str = ""


def retain(
    store: Store,
    reducers: Sequence[Reducer],
    policy: Policy,
    *,
    dry_run: bool = False,
    archive: Archive | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[RetentionAction], Reclaimed | None]:
    """Do what a policy says; with `dry_run` only say it. With an archive, only events that it has are pruned."""
    deeds = list(_thin_all(store, policy, dry_run=dry_run))
    if policy.prune_ns is not None:
        deeds += _prune_all(store, reducers, policy.prune_ns, archive, dry_run=dry_run, progress=progress)
    if dry_run:
        return deeds, None
    forgotten = store.log.commands.forget(before=store.clock() - policy.commands_ns, limit=COMMANDS_FORGOTTEN_MAX)
    if forgotten:
        deeds.append(RetentionAction("forgot commands", "", forgotten))
    compress_before = None if policy.compress_ns is None else store.clock() - policy.compress_ns
    return deeds, store.log.reclaim(compress_before=compress_before, progress=progress)


# --- snapshots ------------------------------------------------------------------------------------------------------


def _thin_all(store: Store, policy: Policy, *, dry_run: bool) -> Iterator[RetentionAction]:
    if all(
        knob is None for knob in (policy.keep_all_ns, policy.keep_daily_ns, policy.keep_weekly_ns, policy.keep_count)
    ):
        return
    for stream in ("", *_user_streams(store)):
        gone = expired_snapshots(list(shelf.entries(store, stream)), policy, now=store.clock(), cut=_cut(store, stream))
        if gone:
            if not dry_run:
                drop(store, stream, [entry.id for entry in gone], reason="retention")
            yield RetentionAction("dropped snapshots", stream, len(gone))


def _cut(store: Store, stream: str) -> int:
    cut = store.cut(stream) if stream else None
    return cut.through if cut is not None else 0


def _user_streams(store: Store) -> Iterator[str]:
    """The streams that are not the store's own, in order of name."""
    return (info.stream for info in iterate.streams(store.log) if not names.is_reserved(info.stream))


def expired_snapshots(entries: list[SnapshotEntry], policy: Policy, *, now: int, cut: int) -> list[SnapshotEntry]:
    """The snapshots of one stream that a policy drops. It never drops protected ones, the latest of each reducer, the
    one at a cut, and the base of a diff that is kept.
    """
    kept: set[bytes] = set()
    for reducer in {(entry.fact.reducer, entry.fact.reducer_version) for entry in entries}:
        mine = [entry for entry in entries if (entry.fact.reducer, entry.fact.reducer_version) == reducer]
        mine.sort(key=lambda entry: (entry.fact.seq, entry.fact.position), reverse=True)
        kept |= {entry.id for entry in _kept_of(mine, policy, now=now, cut=cut)}
    kept |= {bytes.fromhex(entry.fact.base) for entry in entries if entry.id in kept and entry.fact.base}
    return [entry for entry in entries if entry.id not in kept]


def _kept_of(mine: list[SnapshotEntry], policy: Policy, *, now: int, cut: int) -> Iterator[SnapshotEntry]:
    """The snapshots of one reducer that are kept, given the latest first."""
    days: set[int] = set()
    weeks: set[int] = set()
    for index, entry in enumerate(mine):
        age, day, week = now - entry.made, entry.made // DAY, entry.made // (7 * DAY)
        by_count = policy.keep_count is not None and index < policy.keep_count
        young = policy.keep_all_ns is not None and age <= policy.keep_all_ns
        daily = policy.keep_daily_ns is not None and age <= policy.keep_daily_ns and day not in days
        weekly = policy.keep_weekly_ns is not None and age <= policy.keep_weekly_ns and week not in weeks
        at_cut = cut > 0 and entry.fact.seq == cut
        if index == 0 or entry.protected or at_cut or by_count or young or daily or weekly:
            days.add(day)
            weeks.add(week)
            yield entry


# --- events ---------------------------------------------------------------------------------------------------------


def _prune_all(
    store: Store,
    reducers: Sequence[Reducer],
    age_ns: int,
    archive: Archive | None,
    *,
    dry_run: bool,
    progress: Callable[[int], None],
) -> Iterator[RetentionAction]:
    horizon = store.clock() - age_ns
    uncovered = 0
    for number, stream in enumerate(_user_streams(store), start=1):
        if any(item.wants(stream) for item in reducers):
            yield from _prune_one(store, stream, reducers, horizon, archive, dry_run=dry_run)
        elif first_recorded(store, stream) < horizon:
            uncovered += 1
        progress(number)
    if uncovered:
        yield RetentionAction(
            "pruned", "", 0, f"{uncovered:,} streams are old, and no reducer that was given folds them"
        )


def _prune_one(
    store: Store, stream: str, reducers: Sequence[Reducer], horizon: int, archive: Archive | None, *, dry_run: bool
) -> Iterator[RetentionAction]:
    if first_recorded(store, stream) >= horizon:
        return
    through = limits.INT_MAX if archive is None else archive.through
    found = covered_boundary(store, stream, reducers, horizon, through=through)
    if isinstance(found, str):
        yield RetentionAction("pruned", stream, 0, found)
        return
    accept = archive is None  # a policy without an archive accepts that history is lost
    checked: Plan = plan(store, stream, before=found, reducers=reducers, accept=accept, archive=archive)
    if not checked.ok or checked.uncovered:  # but never a state
        lost = [f"the state of {name} would be lost with it" for name in checked.uncovered]
        yield RetentionAction("pruned", stream, 0, "; ".join(checked.refusals + lost))
        return
    if not dry_run:
        try:
            prune(store, stream, before=found, reducers=reducers, accept=accept, archive=archive)
        except errors.PruneRefused as refusal:
            yield RetentionAction("pruned", stream, 0, refusal.reason)
            return
    yield RetentionAction("pruned", stream, checked.count)


def first_recorded(store: Store, stream: str) -> int:
    """When the first remaining event of a stream was recorded; the far future if there is none."""
    found = store.log.read_stream(stream, after=_cut(store, stream), limit=1)
    recorded = store.log.recorded_at(found[0].position) if found else None
    return limits.INT_MAX if recorded is None else recorded


def covered_boundary(
    store: Store, stream: str, reducers: Sequence[Reducer], horizon: int, *, through: int = limits.INT_MAX
) -> int | str:
    """The `before` of the longest prune that is old enough, covered by every reducer's snapshot, and ends a step.

    `through` is the last position that may be removed. A reducer of the whole store covers up to its snapshot.

    The time of recording of every event is checked: if a clock was wrong once, young events must not be removed.
    """
    mine = [item for item in reducers if item.scope == "stream" and item.wants(stream)]
    covered = limits.INT_MAX
    for item in reducers:
        if not item.wants(stream):
            continue
        state = shelf.start(store, item, stream if item.scope == "stream" else "")
        if state is None:
            return f"reducer {item.name!r} has no snapshot of {'it' if item.scope == 'stream' else 'the store'}"
        if item.scope == "stream":
            covered = min(covered, state.seq)
        else:
            through = min(through, state.position)
    boundary = 0
    for event in iterate.stream(store.log, stream, after=_cut(store, stream), until=covered):
        recorded = store.log.recorded_at(event.position)
        if recorded is None or recorded >= horizon or event.position > through:
            break
        if all(item.ends_step(event) for item in mine):
            boundary = event.seq + 1
    return boundary or "no step ended in what is old and covered"
