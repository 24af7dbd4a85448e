"""Proposed floors: an admin proposes a floor, and the founder's node endorses it if its own replay confirms it.

A proposal is an event of an admin with the same content as a floor. On its own it settles nothing: an admin can be
revoked with a cut in the past, and events pruned below a floor cannot be judged again. The founder's rank is above all
others, so an endorsed floor is final, and there are never two floors to choose from.
"""

from __future__ import annotations

from tallystick import errors
from tallystick.community import floors
from tallystick.community.entry import FeedEntry
from tallystick.community.floors import Base
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.snapshot import Snapshot
from tallystick.community.types import ADMIN, POLICY, Event

ENDORSED_MAX = 10  # at once


def propose_floor(log: EventLog, snapshot: Snapshot, admin_kp: KeyPair) -> Event:
    """Propose that the founder declare what a snapshot covers as the floor. For admins."""
    if log.replica.roster.now().get(admin_kp.node, 0) < ADMIN:
        raise errors.SnapshotRejected(reason="only an admin proposes a floor")
    return log.append_local(POLICY, floors.payload_of(snapshot.base, snapshot.after), admin_kp)


def endorse_floors(log: EventLog, founder_kp: KeyPair) -> list[Event]:
    """Declare the proposed floors that the founder's own events confirm."""
    if founder_kp.node != log.community:
        raise errors.SnapshotRejected(reason="only the founder endorses a floor")
    done: list[Event] = []
    log.refresh()
    while len(done) < ENDORSED_MAX and (base := _confirmed(log)) is not None:
        after = log.replica.base.floor
        done.append(log.append_local(POLICY, floors.payload_of(base, after), founder_kp))
        if log.replica.base.floor == after:
            break  # not settled: this node's events contradict it
    return done


def is_proposed(log: EventLog) -> bool:
    """Whether an admin has proposed the next floor already."""
    with log.lock:
        entries = [entry for entry in log.replica.counted.entries() if entry.type == POLICY]
    found = (floors.floor_of(entry) for entry in entries if _is_by_admin(log, entry))
    return any(floor is not None and floor.after == log.replica.base.floor for floor in found)


def _confirmed(log: EventLog) -> Base | None:
    """The first proposal for the next floor that covers exactly the events this node would cover."""
    replica = log.replica
    with log.lock:
        entries = list(replica.counted.entries())
    for entry in entries:
        floor = floors.floor_of(entry) if entry.type == POLICY and _is_by_admin(log, entry) else None
        if floor is None or floor.after != replica.base.floor:
            continue
        covered = floors.cover(replica, floor.heads)
        if covered is not None and covered.base.floor == floor.digest:
            return covered.base
    return None


def _is_by_admin(log: EventLog, entry: FeedEntry) -> bool:
    rank = log.replica.roster.rank(entry.author, entry.key, entry.seq)
    return entry.author != log.community and rank >= ADMIN
