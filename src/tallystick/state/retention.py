"""Retention: which snapshots go, what is pruned because it is old and covered, and what is given back to the disk.

Ages are counted from the time at which this store recorded something, never from an event's own time, which an import
or a peer may have set to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from tallystick import errors
from tallystick.state import shelf
from tallystick.state.policy import DAY, Policy
from tallystick.state.pruning import Plan, plan, prune
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import Entry
from tallystick.state.snapshots import drop, streams_of
from tallystick.store.maintenance import Reclaimed
from tallystick.store.store import Store

STEP_EVENTS_MAX = 10_000
COMMANDS_FORGOTTEN_MAX = 10_000


class Deed(msgspec.Struct, frozen=True):
    """One thing that retention did, would do, or did not do, and why not."""

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
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Deed], Reclaimed | None]:
    """Do what a policy says, or (`dry_run`) only say it."""
    deeds = list(_thin_all(store, policy, dry_run=dry_run))
    if policy.prune_ns is not None:
        deeds += _prune_all(store, reducers, policy.prune_ns, dry_run=dry_run, progress=progress)
    if dry_run:
        return deeds, None
    forgotten = store.log.commands.forget(before=store.clock() - policy.commands_ns, limit=COMMANDS_FORGOTTEN_MAX)
    if forgotten:
        deeds.append(Deed("forgot commands", "", forgotten))
    compress_before = None if policy.compress_ns is None else store.clock() - policy.compress_ns
    return deeds, store.log.reclaim(compress_before=compress_before, progress=progress)


# --- snapshots ------------------------------------------------------------------------------------------------------


def _thin_all(store: Store, policy: Policy, *, dry_run: bool) -> Iterator[Deed]:
    if policy.keep_all_ns is None and policy.keep_count is None:
        return
    for stream in ("", *_streams_with_facts(store)):
        gone = superfluous(list(shelf.entries(store, stream)), policy, now=store.clock(), cut=_cut(store, stream))
        if gone:
            if not dry_run:
                drop(store, stream, [entry.id for entry in gone], reason="retention")
            yield Deed("dropped snapshots", stream, len(gone))


def _cut(store: Store, stream: str) -> int:
    cut = store.cut(stream) if stream else None
    return cut.through if cut is not None else 0


def _streams_with_facts(store: Store) -> Iterator[str]:
    """The streams that exist, facts about them or not: reading an empty list of facts costs little."""
    after = ""
    while page := store.streams(after=after):
        yield from (info.stream for info in page if not info.stream.startswith("tally."))
        after = page[-1].stream


def superfluous(entries: list[Entry], policy: Policy, *, now: int, cut: int) -> list[Entry]:
    """The snapshots of one stream that a policy lets go. Kept in any case: what is protected, the latest of each
    reducer, the one at a cut, and every base that a kept diff needs."""
    kept: set[bytes] = set()
    for reducer in {(entry.fact.reducer, entry.fact.reducer_version) for entry in entries}:
        mine = [entry for entry in entries if (entry.fact.reducer, entry.fact.reducer_version) == reducer]
        mine.sort(key=lambda entry: (entry.fact.seq, entry.fact.position), reverse=True)
        kept |= {entry.id for entry in _kept_of(mine, policy, now=now, cut=cut)}
    kept |= {bytes.fromhex(entry.fact.base) for entry in entries if entry.id in kept and entry.fact.base}
    return [entry for entry in entries if entry.id not in kept]


def _kept_of(mine: list[Entry], policy: Policy, *, now: int, cut: int) -> Iterator[Entry]:
    """What is kept of one reducer's snapshots, given the latest first."""
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
    store: Store, reducers: Sequence[Reducer], age_ns: int, *, dry_run: bool, progress: Callable[[int], None]
) -> Iterator[Deed]:
    horizon = store.clock() - age_ns
    seen: set[str] = set()
    for item in reducers:
        if item.scope != "stream":
            continue
        for stream in streams_of(store, item):
            if stream not in seen:
                seen.add(stream)
                yield from _prune_one(store, stream, reducers, horizon, dry_run=dry_run)
                progress(len(seen))


def _prune_one(
    store: Store, stream: str, reducers: Sequence[Reducer], horizon: int, *, dry_run: bool
) -> Iterator[Deed]:
    old = last_recorded_before(store, stream, horizon)
    if old <= _cut(store, stream):
        return
    found = covered_boundary(store, stream, reducers, old)
    if isinstance(found, str):
        yield Deed("pruned", stream, 0, found)
        return
    checked: Plan = plan(store, stream, before=found, reducers=reducers, accept=True)
    if not checked.ok:
        yield Deed("pruned", stream, 0, "; ".join(checked.refusals))
        return
    if not dry_run:
        try:
            prune(store, stream, before=found, reducers=reducers, accept=True)
        except errors.PruneRefused as refusal:
            yield Deed("pruned", stream, 0, refusal.reason)
            return
    yield Deed("pruned", stream, checked.count)


def last_recorded_before(store: Store, stream: str, horizon: int) -> int:
    """The highest seq of a stream that was recorded before a time, found by halving: recording times rise."""
    head = store.stream_head(stream)
    low, high = _cut(store, stream), head.seq if head is not None else 0
    while low < high:
        middle = (low + high + 1) // 2
        event = store.log.read_stream(stream, after=middle - 1, limit=1)[0]
        recorded = store.log.recorded_at(event.position)
        if recorded is not None and recorded < horizon:
            low = middle
        else:
            high = middle - 1
    return low


def covered_boundary(store: Store, stream: str, reducers: Sequence[Reducer], old: int) -> int | str:
    """The `before` of the longest prune that is old, covered by every reducer's snapshot, and at a step boundary."""
    mine = [item for item in reducers if item.scope == "stream" and item.wants(stream)]
    last = old
    for item in mine:
        state = shelf.start(store, item, stream)
        if state is None:
            return f"reducer {item.name!r} has no snapshot of it"
        last = min(last, state.seq)
    floor = max(_cut(store, stream), last - STEP_EVENTS_MAX)
    while last > floor:
        event = store.log.read_stream(stream, after=last - 1, limit=1)[0]
        if all(item.ends_step(event) for item in mine):
            return last + 1
        last -= 1
    return "no step ended in what is old and covered"
