"""Feeds: each author's events in order, without holes, and the proof if an author wrote two events for one seq.

Invariants: a feed starts after its base (seq 0, or where a snapshot ends), and every event follows the one before it by
seq, by link, and with a higher lamport. A fork never removes an event: it says from which seq on nothing counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.community.entry import FeedEntry
from tallystick.event import chain


class FeedHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The end of a feed, or of what a snapshot covers of it."""

    seq: int = 0
    link: bytes = chain.GENESIS
    lamport: int = 0


NOTHING = FeedHead()


def _corrupt(entry: FeedEntry, reason: str) -> errors.EventLogError:
    """The error for stored events that could never have been accepted."""
    return errors.EventLogError(code="db_corrupt", reason=f"{entry.author}#{entry.seq}: {reason}")


class Feed:
    """The events of one author that this node has."""

    def __init__(self, author: str, base: FeedHead = NOTHING) -> None:
        self.author = author
        self.base = base
        self.entries: list[FeedEntry] = []
        self.evidence: tuple[FeedEntry, FeedEntry] | None = None

    @property
    def head(self) -> FeedHead:
        """Where it ends."""
        if not self.entries:
            return self.base
        last = self.entries[-1]
        return FeedHead(last.seq, last.link, last.lamport)

    @property
    def fork(self) -> int | None:
        """The first seq that has two events; from there on nothing counts."""
        return None if self.evidence is None else self.evidence[0].seq

    def get(self, seq: int) -> FeedEntry | None:
        """The event at a seq."""
        at = seq - self.base.seq - 1
        return self.entries[at] if 0 <= at < len(self.entries) else None

    def between(self, after: int, until: int) -> list[FeedEntry]:
        """Events with after < seq <= until."""
        base = self.base.seq
        return self.entries[max(after - base, 0) : max(until - base, 0)]

    def add(self, entry: FeedEntry) -> None:
        """Put an event at the end."""
        head = self.head
        if (entry.seq, entry.previous) != (head.seq + 1, head.link):
            raise _corrupt(entry, f"event {entry.seq} does not follow {head.seq}, the end of the feed")
        if entry.lamport <= head.lamport:
            raise _corrupt(entry, f"its lamport {entry.lamport} does not rise past {head.lamport}")
        self.entries.append(entry)

    def prove(self, one: FeedEntry, other: FeedEntry) -> bool:
        """Keep two events for one seq as evidence, if they prove an earlier fork than the known one."""
        if one.author != other.author or one.seq != other.seq or one.link == other.link:
            return False
        if self.fork is not None and self.fork <= one.seq:
            return False
        self.evidence = (one, other) if one.link < other.link else (other, one)
        return True

    def cut(self, seq: int) -> list[FeedEntry]:
        """Remove everything after a seq, to follow another branch. Returns the removed events."""
        at = seq - self.base.seq
        gone, self.entries = self.entries[at:], self.entries[:at]
        return gone

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self.entries)
