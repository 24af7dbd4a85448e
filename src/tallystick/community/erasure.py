"""Erase content: the data of one event is removed from this node's disk. Its position, link and signature stay.

The counted set, the order and the fingerprint depend on links and do not change. Views see the event without data. An
erased event is no longer passed on, because nobody could verify it: a peer that lacks it gets it from another node, or
starts at a later floor. Acts of membership and policies are never erased: all nodes must agree on who counts.
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
    """Erase the data of an author's event on this node, and every snapshot that may contain data derived from it."""
    with log.lock:
        log.refresh()
        stream = log.replica.streams.feed(author)
        entry = _erasable(log, stream, author, seq)
        for lamport in files.list():  # before the payload: an interrupted erasure must stay visible and be repeated
            if _may_hold(files, lamport, author, seq):
                files.remove(lamport)
        erase_payload(log.disk, stream, seq, reason=reason, reducers=[end_of_feed])
        log.replica.replace(msgspec.structs.replace(entry, payload=ERASED))
        engine.rebuild_all()


def _may_hold(files: SnapshotStore, lamport: int, author: str, seq: int) -> bool:
    try:
        return files.read(lamport).heads.get(author, NOTHING).seq >= seq
    except errors.SnapshotRejected:  # no node starts at a damaged one, and its content is unknown
        return True


def _erasable(log: EventLog, stream: str, author: str, seq: int) -> FeedEntry:
    feed = log.replica.feeds.get(author)
    entry = feed.get(seq) if feed else None
    if entry is None:
        why = "there is no such event"
    elif entry.type in MEMBERSHIP_TYPES or entry.type == POLICY:
        why = "it decides who counts"
    elif seq <= log.replica.base.heads.get(author, NOTHING).seq:
        why = "a floor covers it, and the floor's signed states may contain its data: prune instead"
    elif (end := log.disk.stream_head(stream)) is None or end.seq < seq:
        why = "it was set aside together with what verifies it"
    else:
        return entry
    raise errors.EraseRefused(stream=stream, seq=seq, reason=why)
