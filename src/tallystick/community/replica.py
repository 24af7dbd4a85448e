"""A node of a community as a pure state machine: no disk, no network, and no clock except the lamports in events.

`plan` takes verified entries and returns what is new. When that is stored, `apply` adds it. Everything that nodes must
agree on depends only on what was applied, in any order: roster, counted set, views.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tallystick.community import counted_set, floors, identity
from tallystick.community.acceptance import Verify
from tallystick.community.acts import Act, act_of
from tallystick.community.counted_set import Counted, code_of
from tallystick.community.entry import FeedEntry, FeedStreams
from tallystick.community.feeds import NOTHING, Feed, FeedHead
from tallystick.community.floors import Base
from tallystick.community.held import Held
from tallystick.community.judge import Judge, JudgedBatch, KnownKeys
from tallystick.community.lamport import LamportClock
from tallystick.community.roster import Roster
from tallystick.community.types import LAMPORT_AHEAD_MAX, MEMBERSHIP_TYPES, POLICY

SURPLUS_EVENTS_MAX = 1000


class Replica:
    """Everything one node knows. `community` is the NodeID of the founder; `node` is this node, if it writes."""

    def __init__(
        self,
        community: str,
        *,
        node: str | None = None,
        base: Base | None = None,
        verify: Verify = identity.verify,
        ahead_max: int = LAMPORT_AHEAD_MAX,
        surplus_max: int = SURPLUS_EVENTS_MAX,
        held: Held | None = None,
    ) -> None:
        self.community = community
        self.node = node
        self.streams = FeedStreams(community)
        self.verify = verify
        self.held = held or Held()
        self.counted = Counted()
        self.by_link: dict[bytes, FeedEntry] = {}
        self.listeners: list[Callable[[int], None]] = []  # called with how much of the merged order did not change
        self.floor_listeners: list[Callable[[floors.Covered], None]] = []
        self._by_lamport: list[FeedEntry] | None = None  # every stored event, computed when a ladder is requested
        self._heads_by_type: tuple[int, dict[str, int]] = (-1, {})
        self._ahead_max = ahead_max
        self._surplus_max = surplus_max
        self._read_act = partial(_cached_act, {}, community=community, verify=verify)
        self._begin(base or Base())

    def _begin(self, base: Base) -> None:
        self.base = base
        self.feeds = {author: Feed(author, head) for author, head in base.heads.items()}
        self.known = KnownKeys(self.community)
        self.known.nodes.update(base.nodes)
        if self.node is not None:
            self.known.nodes.add(self.node)
        self.acts: dict[bytes, Act] = {}
        self._floors: dict[bytes, FeedEntry] = {}  # the floor before it -> the event that makes the next one
        self.settled: list[floors.Covered] = []  # what each floor covered, in order: views added later need it
        self.disputed: set[bytes] = set()  # floors that this node's own events contradict
        self.roster = Roster(base.acts)
        self.clock = LamportClock(base.lamport)
        self.ceiling = base.lamport
        self.head = base.lamport
        self.by_link.clear()
        self.counted.clear()
        self.counted.floor = base.heads

    # --- taking events in ------------------------------------------------------------------------------------------

    def plan(self, entries: Iterable[FeedEntry], *, peer: str = "", bounded: bool = False) -> JudgedBatch:
        """Decide about these verified entries. Those that cannot be accepted yet are held in the peer's pool.

        `bounded`: limits the stored events of an author without a rank that do not count, whoever sends them. More are
        accepted if the last of them is shown to count (`would_count`), because later events need them.
        """
        judge = Judge(
            feeds=self.feeds,
            known=self.known,
            held=self.held,
            ceiling=self.ceiling,
            read_act=self._read_act,
            ahead_max=self._ahead_max,
            room=self.room if bounded else lambda author: None,
        )
        return judge.judge(entries, peer)

    def room(self, author: str) -> int | None:
        """How many more uncounted events of an author may be stored; None (no limit) if it has a rank."""
        if self.roster.is_member(author):
            return None
        feed = self.feeds.get(author)
        tip = self.counted.tip(author)
        below = max(tip, self.base.heads.get(author, NOTHING).seq)
        return self._surplus_max - (feed.head.seq - below if feed else 0)

    def would_count(self, entries: Sequence[FeedEntry]) -> bool:
        """Whether the last of these events, which continue a feed, would count if all of them were stored."""
        acts = [act for entry in entries if (act := self._read_act(entry)) is not None]
        roster = counted_set.roster_of(self.base.acts, [*self._acts_above(), *acts], self.feeds)
        return code_of(entries[-1], self.feed(entries[-1].author).fork, roster) is None

    def apply(
        self, new: Sequence[FeedEntry], forks: Sequence[tuple[FeedEntry, FeedEntry]] = (), *, ceiling: int = 0
    ) -> None:
        """Add what was stored, and judge again what it changes."""
        acts_changed = False
        for entry in new:
            acts_changed |= self._add(entry)
        forked = {one.author for one, other in forks if self.feed(one.author).prove(one, other)}
        self.ceiling = max(self.ceiling, self.head, ceiling)
        again: set[str] = set(forked)
        if acts_changed or forked:
            roster = counted_set.roster_of(self.base.acts, self._acts_above(), self.feeds)
            again |= counted_set.changed_nodes(self.roster, roster)
            self.roster = roster
        same = len(self.counted)
        for author in again & self.feeds.keys():
            same = min(same, self.counted.judge_again(self.feeds[author], self.roster))
        same = min(same, self.counted.judge((e for e in new if e.author not in again), self.feeds, self.roster))
        for listener in self.listeners:
            listener(same)
        while self._advance_floor():
            pass

    def _advance_floor(self) -> bool:
        """Settle what the founder declared settled, once all of it is here. All nodes do this in the same steps."""
        entry = self._floors.get(self.base.floor)
        if entry is None or entry.key not in self.counted.by_key:
            return False
        floor = floors.floor_of(entry)
        covered = floors.cover(self, floor.heads) if floor is not None else None
        if floor is None or covered is None:
            return False
        if covered.base.floor != floor.digest:
            self.disputed.add(entry.link)
            return False
        self.settle(covered)
        return True

    def unsettled(self) -> dict[str, FeedHead]:
        """The feeds of which the next floor covers another branch than this node has."""
        entry = self._floors.get(self.base.floor)
        floor = floors.floor_of(entry) if entry is not None and entry.key in self.counted.by_key else None
        found: dict[str, FeedHead] = {}
        for author, head in floor.heads.items() if floor else ():
            feed = self.feeds.get(author)
            last = feed.get(head.seq) if feed else None
            if feed is not None and feed.fork is not None and (last is None or last.link != head.link):
                found[author] = head
        return found

    def settle(self, covered: floors.Covered) -> None:
        """Start at a floor: what it covers is history and no longer part of the set."""
        self.base = covered.base
        self.settled.append(covered)
        self.roster = counted_set.roster_of(self.base.acts, self._acts_above(), self.feeds)
        self.counted.clear()
        self.counted.floor = self.base.heads
        for feed in self.feeds.values():
            self.counted.judge(feed, self.feeds, self.roster)
        for listener in self.floor_listeners:
            listener(covered)

    def _acts_above(self) -> list[Act]:
        heads = self.base.heads
        return [act for act in self.acts.values() if act.actor not in heads or act.seq > heads[act.actor].seq]

    def _add(self, entry: FeedEntry) -> bool:
        """Put one event into its feed; True if it is an act."""
        feed = self.feed(entry.author)
        if entry.seq <= feed.head.seq:  # the branch of a fork that a floor has settled
            for gone in feed.cut(entry.seq - 1):
                del self.by_link[gone.link]
                self.acts.pop(gone.link, None)
        feed.add(entry)
        self.by_link[entry.link] = entry
        self._by_lamport = None
        self.head = max(self.head, entry.lamport)
        if entry.author == self.node:
            self.clock.sent(entry.lamport)
        else:
            self.clock.observe(entry.lamport)
        self.known.nodes.add(entry.author)
        if entry.type == POLICY and (floor := floors.floor_of(entry)) and entry.author == self.community:
            self._floors.setdefault(floor.after, entry)
        act = self._read_act(entry)
        if act is None:
            return False
        self.known.learn(act)
        self.acts[entry.link] = act
        return True

    def replace(self, entry: FeedEntry) -> None:
        """Replace an event by its copy with erased data."""
        feed = self.feeds[entry.author]
        feed.entries[entry.seq - feed.base.seq - 1] = entry
        self.by_link[entry.link] = entry
        self._by_lamport = None
        if entry.key in self.counted.by_key:
            self.counted.by_key[entry.key] = entry

    @property
    def reach(self) -> int:
        """The highest lamport that would be accepted now."""
        return self.ceiling + self._ahead_max

    def witness(self, entries: Iterable[FeedEntry]) -> None:
        """Use validly signed events as evidence of how far the clocks are, without storing them.

        An honest event may depend on lamports of events that no longer count and are not passed on. Each signature
        raises the ceiling by one bounded step, as a stored event would, so nobody can jump ahead this way.
        """
        for entry in sorted(entries, key=lambda each: each.lamport):
            if entry.lamport <= self.reach:
                self.ceiling = max(self.ceiling, entry.lamport)

    # --- asking ----------------------------------------------------------------------------------------------------

    def feed(self, author: str) -> Feed:
        """The feed of an author; empty if there are no events of it."""
        found = self.feeds.get(author)
        if found is None:
            found = self.feeds[author] = Feed(author)
        return found

    def code_of(self, entry: FeedEntry) -> str | None:
        """Why a stored event does not count; None if it counts."""
        return code_of(entry, self.feeds[entry.author].fork, self.roster)

    def tips(self) -> dict[str, FeedHead]:
        """How far each feed belongs to the evidence: up to its last event that counts, or to the base."""
        tips = {author: head for author, head in self.base.heads.items() if head.seq}
        for author, seq in self.counted.tips().items():
            entry = self.feeds[author].get(seq)
            assert entry is not None
            tips[author] = FeedHead(entry.seq, entry.link, entry.lamport)
        return tips

    def forks(self) -> dict[str, int]:
        """Where the feeds of known authors fork."""
        return {author: feed.fork for author, feed in self.feeds.items() if feed.fork is not None}

    def heads_by_type(self) -> dict[str, int]:
        """The highest lamport of each type that counts."""
        if self._heads_by_type[0] != self.counted.version:
            found = {entry.type: entry.lamport for entry in self.counted.entries()}  # ascending: the last one stays
            self._heads_by_type = (self.counted.version, found)
        return dict(self._heads_by_type[1])

    def fingerprint(self) -> str:
        """One hash of the counted set: equal on nodes that have the same evidence."""
        lines = sorted(
            f"{self.streams.feed(entry.author)}\n{entry.seq}\n{entry.link.hex()}" for entry in self.counted.entries()
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def ladder(self, after: int, until: int, *, rungs_max: int) -> list[FeedEntry]:
        """The fewest stored events whose lamports lead from one value to another in steps that every node accepts."""
        if self._by_lamport is None:
            self._by_lamport = sorted(self.by_link.values(), key=lambda each: each.lamport)
        stored = self._by_lamport
        rungs: list[FeedEntry] = []
        while len(rungs) < rungs_max:
            reach = min(after + self._ahead_max, until - 1)
            at = bisect_right(stored, reach, key=lambda each: each.lamport)
            if not at or stored[at - 1].lamport <= after:
                break
            rungs.append(stored[at - 1])
            after = rungs[-1].lamport
        return rungs


def _cached_act(cache: dict[bytes, Act | None], entry: FeedEntry, *, community: str, verify: Verify) -> Act | None:
    """The act of an event, cached: a join contains a second signature to verify."""
    if entry.type not in MEMBERSHIP_TYPES:
        return None
    if entry.link not in cache:
        cache[entry.link] = act_of(entry, community, verify)
    return cache[entry.link]
