"""Decide about verified events: accept, hold or refuse. Only the pool of held events is changed here.

Events are processed by ascending lamport: each author's in the order of its feed, and an invitation before the joins
that use it. The clock of a node that was offline for long catches up step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tallystick import errors
from tallystick.community.acts import Act
from tallystick.community.entry import FeedEntry
from tallystick.community.feeds import NOTHING, Feed, FeedHead
from tallystick.community.held import Held
from tallystick.community.types import INVITED, JOINED, LAMPORT_AHEAD_MAX, PROMOTED

READ_ACT = Callable[[FeedEntry], "Act | None"]


class JudgedBatch(msgspec.Struct):
    """The result for a batch: new events in the order to store them in, proofs of forks, and codes for the rest."""

    new: list[FeedEntry] = []
    forks: list[tuple[FeedEntry, FeedEntry]] = []
    codes: dict[bytes, tuple[str, str]] = {}
    ceiling: int = 0

    def refuse(self, entry: FeedEntry, code: str, reason: str) -> None:
        """Record why an event is not accepted now."""
        self.codes[entry.link] = (code, reason)


class KnownKeys:
    """The known nodes: named in an invitation or a promotion, or joined with an invited key."""

    def __init__(self, founder: str) -> None:
        self.nodes = {founder}

    def learn(self, act: Act | None) -> None:
        """Learn the nodes that a stored act names."""
        if act is not None and act.kind in (INVITED, PROMOTED):
            self.nodes.add(act.node)
        if act is not None and act.kind == JOINED and act.node in self.nodes:
            self.nodes.add(act.actor)


class Judge:
    """Judges one batch on top of what a node has."""

    def __init__(
        self,
        *,
        feeds: dict[str, Feed],
        known: KnownKeys,
        held: Held,
        ceiling: int,
        read_act: READ_ACT,
        ahead_max: int = LAMPORT_AHEAD_MAX,
        room: Callable[[str], int | None] = lambda author: None,
    ) -> None:
        self._room_of = room
        self._room: dict[str, int | None] = {}
        self._feeds = feeds
        self._nodes = set(known.nodes)
        self._held = held
        self._read_act = read_act
        self._ahead_max = ahead_max
        self._heads: dict[str, FeedHead] = {}
        self._new: dict[tuple[str, int], FeedEntry] = {}
        self._forks: dict[str, int] = {}
        self.plan = JudgedBatch(ceiling=ceiling)

    def judge(self, entries: Iterable[FeedEntry], peer: str) -> JudgedBatch:
        """The result for these entries, and for held ones that can be accepted now."""
        waiting = [(entry, peer) for entry in entries] + self._held.take_all()
        waiting.sort(key=lambda pair: (pair[0].lamport, pair[0].seq, pair[0].link))
        while waiting:
            left = [pair for pair in waiting if not self._settled(pair[0])]
            if len(left) == len(waiting):
                break
            waiting = left
        for entry, sender in waiting:
            if not self._held.put(entry, sender):
                code, reason = self.plan.codes[entry.link]
                self.plan.refuse(entry, code, f"{reason}; the pool for this peer is full")
        return self.plan

    def _settled(self, entry: FeedEntry) -> bool:
        """Whether the decision about the event is final. If not, the event is held."""
        plan = self.plan
        if entry.lamport > plan.ceiling + self._ahead_max:
            reason = f"lamport {entry.lamport} is more than {self._ahead_max} past {plan.ceiling}"
            plan.refuse(entry, "out_of_order", reason)
            return False
        if not self._is_known(entry):
            plan.refuse(entry, "unknown_author", f"nobody has invited {entry.author}")
            return False
        feed = self._feeds.get(entry.author)
        head = self._heads.get(entry.author) or (feed.head if feed else NOTHING)
        if entry.seq <= head.seq or self._behind_fork(entry, feed):
            self._known_place(entry, feed)
            return True
        if not self._has_room(entry.author):
            plan.refuse(entry, "revoked_author", "too many events of its author that do not count are stored")
            return True
        if entry.seq != head.seq + 1 or entry.previous != head.link:
            plan.refuse(entry, "out_of_order", f"event {entry.seq - 1} of its author's feed is missing")
            return False
        if entry.lamport <= head.lamport:
            plan.refuse(entry, "out_of_order", "its lamport does not rise along the feed")
            return True
        self._take(entry)
        return True

    def _has_room(self, author: str) -> bool:
        """Whether another event of this author may be stored even if it does not count."""
        if author not in self._room:
            self._room[author] = self._room_of(author)
        room = self._room[author]
        return room is None or room > 0

    def _take(self, entry: FeedEntry) -> None:
        plan = self.plan
        room = self._room.get(entry.author)
        if room is not None:
            self._room[entry.author] = room - 1
        plan.codes.pop(entry.link, None)
        plan.new.append(entry)
        plan.ceiling = max(plan.ceiling, entry.lamport)
        self._heads[entry.author] = FeedHead(entry.seq, entry.link, entry.lamport)
        self._new[entry.author, entry.seq] = entry
        act = self._read_act(entry)
        if act is not None and act.kind in (INVITED, PROMOTED):
            self._nodes.add(act.node)
        self._nodes.add(entry.author)

    def _known_place(self, entry: FeedEntry, feed: Feed | None) -> None:
        """An event for a seq that exists: a repetition, or the proof of a fork."""
        stored = self._new.get((entry.author, entry.seq)) or (feed.get(entry.seq) if feed else None)
        self.plan.codes.pop(entry.link, None)
        if stored is not None and stored.link != entry.link:
            self.plan.forks.append((stored, entry))
            self._forks[entry.author] = min(entry.seq, self._forks.get(entry.author, entry.seq))
            self.plan.refuse(entry, "revoked_author", f"its author wrote another event {entry.seq}")
        elif stored is None and self._behind_fork(entry, feed):
            self.plan.refuse(entry, "revoked_author", "its author's feed has forked before it")
        self.plan.ceiling = max(self.plan.ceiling, entry.lamport)  # signed by a known node: counts for the clock

    def _behind_fork(self, entry: FeedEntry, feed: Feed | None) -> bool:
        fork = self._forks.get(entry.author)
        known = feed.fork if feed else None
        return any(seq is not None and entry.seq >= seq for seq in (fork, known))

    def _is_known(self, entry: FeedEntry) -> bool:
        if entry.author in self._nodes:
            return True
        act = self._read_act(entry) if entry.type == JOINED else None
        return act is not None and act.node in self._nodes


def error_of(code: str, reason: str) -> errors.EventLogError:
    """The error that a code is raised as."""
    return errors.EventLogError(code=code, reason=reason)
