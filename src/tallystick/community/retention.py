"""Retention: what a floor covers leaves the disk, 30 days after this node has a signed snapshot of that floor.

The snapshot is written and verified first, and whoever opens the log from then on begins there (`base`). The events go
by the pruning of `state/`, stream by stream, each with its control fact: a kill in between leaves feeds of which less
is pruned, which opening reads just as well. Ages are local: when the snapshot was written and when this store recorded
an event, never what an author says. What is above the floor, and every proof of a fork, stays.
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
    """A floor whose events may go: the snapshot that stands in for them, and what is younger than which stays."""

    snapshot: Snapshot
    horizon_ns: int


class PrunedStream(msgspec.Struct, frozen=True):
    """What became of one stream: how many events went, or why none did."""

    stream: str
    count: int
    why_not: str = ""


@reducer(name="community.feed", initial={"seq": 0, "link": ""})
def end_of_feed(state: dict[str, Any], event: Event) -> dict[str, Any]:
    """What is left of a feed's prefix: where it ends. What it meant is in the signed snapshot."""
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
    """Make sure of a snapshot at the floor, and say what is due; None if nothing is.

    `peers` are those who are on the list: as long as one of them has not shown that it is at this floor, it may still
    need the events, and they stay for `WAIT_DAYS_MAX` instead.
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
    """For how long this node has had a snapshot of the floor that it is at; 0 if it has none."""
    base = log.replica.base
    if snapshot_at(files, base.lamport, base.floor) is None:
        return 0
    return log.clock() - files.written_ns(base.lamport)


def snapshot_at(files: SnapshotStore, lamport: int, floor: bytes) -> Snapshot | None:
    """The snapshot of this lamport, if it is of this floor and whole."""
    try:
        found = files.read(lamport)
    except (FileNotFoundError, errors.SnapshotRejected):
        return None
    return found if found.base.floor == floor else None


def prune(log: EventLog, found: PrunableFloor) -> list[PrunedStream]:
    """Prune what is due. From now on the log is opened with `base=found.snapshot.base`: write that down before."""
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
    except errors.PruneRefused as refusal:  # somebody who reads this store has not come this far
        return PrunedStream(stream, 0, refusal.reason)


def _remaining(log: EventLog, stream: str) -> Iterator[Event]:
    cut = log.disk.cut(stream)
    return iterate.stream(log.disk.log, stream, after=NOTHING.seq if cut is None else cut.through)
