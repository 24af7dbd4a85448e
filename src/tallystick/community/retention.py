"""Retention: events that a floor covers are pruned 30 days after this node has a signed snapshot of that floor.

The snapshot is written and verified first, and from then on the log starts there (`base`). `state/` prunes the events,
stream by stream, each with its control fact. If the process is killed in between, less is pruned, and the log opens
normally. Ages are local: when the snapshot was written and when this store recorded an event, never what an author
says. Everything above the floor, and every proof of a fork, is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from tallystick import errors
from tallystick.community import snapshot as snapshots
from tallystick.community.feeds import NOTHING
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.replay import ReplayEngine
from tallystick.community.snapshot import Snapshot, SnapshotStore
from tallystick.community.storage import ASIDE_FORK, from_aside
from tallystick.community.types import EVENT_LOG_RETENTION_DAYS
from tallystick.event.model import Event
from tallystick.state import prune as prune_stream
from tallystick.state import reducer
from tallystick.store import iterate

DAY_NS = 86_400_000_000_000
WAIT_DAYS_MAX = 90  # for peers that have not reached the floor yet


class PrunableFloor(msgspec.Struct, frozen=True):
    """A floor whose events may be pruned, and the snapshot that replaces them. Those after `horizon_ns` are kept."""

    snapshot: Snapshot
    horizon_ns: int


class PrunedStream(msgspec.Struct, frozen=True):
    """The result for one stream: how many events were pruned, or why none were."""

    stream: str
    count: int
    why_not: str = ""


@reducer(name="community.feed", initial={"seq": 0, "link": ""})
def end_of_feed(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """Reduce the pruned part of a feed to where it ends. Its meaning is in the signed snapshot."""
    return {"seq": event.seq, "link": event.link.hex()}


def due(
    log: EventLog,
    engine: ReplayEngine,
    files: SnapshotStore,
    keys: KeyPair,
    *,
    days: float = EVENT_LOG_RETENTION_DAYS,
    peers: Collection[str] = (),
) -> PrunableFloor | None:
    """Verify the snapshot at the floor and return what may be pruned; None if nothing may.

    `peers` are the listed ones. As long as one of them has not shown that it is at this floor, it may still need the
    events, and they are kept for `WAIT_DAYS_MAX` instead.
    """
    with log.lock:
        base = log.replica.base
        if not base.floor:
            return None
        found = snapshot_at(files, base.lamport, base.floor)
        if found is None:
            files.write(snapshots.of_floor(log, engine, keys), at_ns=log.clock())
            return None
        found.verify(log.community, {log.community, keys.node})
        behind = [peer for peer in peers if log.floors_seen.get(peer) != base.floor.hex()]
        now = log.clock()
        window_ns = int((max(days, WAIT_DAYS_MAX) if behind else days) * DAY_NS)
        if files.written_ns(found.lamport) > now - window_ns:
            return None
        return PrunableFloor(found, now - int(days * DAY_NS))


def age_ns(log: EventLog, files: SnapshotStore) -> int:
    """How long this node has had a snapshot of its current floor; 0 if it has none."""
    base = log.replica.base
    if snapshot_at(files, base.lamport, base.floor) is None:
        return 0
    return log.clock() - files.written_ns(base.lamport)


def snapshot_at(files: SnapshotStore, lamport: int, floor: bytes) -> Snapshot | None:
    """The snapshot with this lamport, if it belongs to this floor and is intact."""
    try:
        found = files.read(lamport)
    except (FileNotFoundError, errors.SnapshotRejected):
        return None
    return found if found.base.floor == floor else None


def prune(log: EventLog, found: PrunableFloor) -> list[PrunedStream]:
    """Prune what is due. From now on the log must be opened with `base=found.snapshot.base`: store that first."""
    with log.lock:
        heads = found.snapshot.heads
        done = [_prune(log, author, heads[author].seq, found.horizon_ns) for author in sorted(heads)]
        done += [_prune(log, author, heads[author].seq, found.horizon_ns, aside=True) for author in sorted(heads)]
    return [each for each in done if each.count or each.why_not]


def _prune(log: EventLog, author: str, through: int, horizon_ns: int, *, aside: bool = False) -> PrunedStream:
    streams, store = log.replica.streams, log.disk
    stream = streams.aside(author) if aside else streams.feed(author)
    last = 0
    for event in _remaining(log, stream):
        recorded = store.log.recorded_at(event.position)
        if recorded is None or recorded >= horizon_ns or (aside and event.type == ASIDE_FORK):
            break
        seq = from_aside(streams, event.data["event"]).seq if aside else event.seq
        if seq > through:
            break
        last = event.seq
    if not last:
        return PrunedStream(stream, 0)
    try:
        gone = prune_stream(store, stream, before=last + 1, reducers=[end_of_feed], snapshot=True, accept=True)
        return PrunedStream(stream, gone)
    except errors.PruneRefused as refusal:  # a reader of this store has not reached this position
        return PrunedStream(stream, 0, refusal.reason)


def _remaining(log: EventLog, stream: str) -> Iterator[Event]:
    cut = log.disk.cut(stream)
    return iterate.stream(log.disk.log, stream, after=NOTHING.seq if cut is None else cut.through)
