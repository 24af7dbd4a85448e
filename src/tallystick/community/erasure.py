"""Erasing content: the data of one event goes from this node's disk; its place, link and signature stay.

Counted set, order and fingerprint rest on links and are as before; views see the event with no data. An erased event is
not passed on any more, because nobody could verify it: a peer that lacks it takes it from another, or begins at a later
floor. Acts of membership and policies are never erased: who counts must be told alike by everyone.
"""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.community.entry import ERASED, FeedEntry
from tallystick.community.feeds import NOTHING
from tallystick.community.log import EventLog
from tallystick.community.replay import ReplayEngine
from tallystick.community.retention import end_of_feed
from tallystick.community.snapshot import SnapshotStore
from tallystick.community.types import MEMBERSHIP_TYPES, POLICY
from tallystick.state import erase as erase_payload


def erase(log: EventLog, engine: ReplayEngine, files: SnapshotStore, author: str, seq: int, *, reason: str) -> None:
    """Erase the data of an author's event here, with every snapshot that holds what became of it."""
    with log.lock:
        log.refresh()
        stream = log.replica.streams.feed(author)
        entry = _erasable(log, stream, author, seq)
        for lamport in files.list():  # before the payload: an erasure that was cut short must be there to be repeated
            if _may_hold(files, lamport, author, seq):
                files.remove(lamport)
        erase_payload(log.disk, stream, seq, reason=reason, reducers=[end_of_feed])
        log.replica.replace(msgspec.structs.replace(entry, payload=ERASED))
        engine.rebuild_all()


def _may_hold(files: SnapshotStore, lamport: int, author: str, seq: int) -> bool:
    try:
        return files.read(lamport).heads.get(author, NOTHING).seq >= seq
    except errors.SnapshotRejected:  # nobody begins at a damaged one, and nobody knows what is in it
        return True


def _erasable(log: EventLog, stream: str, author: str, seq: int) -> FeedEntry:
    feed = log.replica.feeds.get(author)
    entry = feed.get(seq) if feed else None
    if entry is None:
        why = "there is no such event"
    elif entry.type in MEMBERSHIP_TYPES or entry.type == POLICY:
        why = "who counts is told by it"
    elif seq <= log.replica.base.heads.get(author, NOTHING).seq:
        why = "a floor covers it, whose signed states may hold its data: prune instead"
    elif (end := log.disk.stream_head(stream)) is None or end.seq < seq:
        why = "it is kept aside, with all that verifies it"
    else:
        return entry
    raise errors.EraseRefused(stream=stream, seq=seq, reason=why)
