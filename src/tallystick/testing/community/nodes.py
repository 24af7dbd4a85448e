"""Nodes of a simulated community. Their disk is a list, so that crashes and restored backups are cheap."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tallystick.community import floors, identity
from tallystick.community.entry import FeedEntry, FeedStreams, mint
from tallystick.community.feeds import NOTHING
from tallystick.community.floors import Base
from tallystick.community.identity import KeyPair
from tallystick.community.judge import JudgedBatch
from tallystick.community.node import GossipNode
from tallystick.community.replay import ReplayEngine, pack
from tallystick.community.replica import Replica
from tallystick.community.types import POLICY
from tallystick.community.views import shipped_views

verify = lru_cache(maxsize=1 << 14)(identity.verify)
"""Every node verifies every event. In one process the result is the same, so it is computed once."""


class NodeJournal:
    """The disk of a node: its commits in order, and the snapshot that it began with, if any."""

    def __init__(self, base: Base | None = None, states: dict[str, bytes] | None = None) -> None:
        self.base = base
        self.states = states
        self.commits: list[tuple[list[FeedEntry], list[tuple[FeedEntry, FeedEntry]]]] = []


class SimulatedNode(GossipNode):
    """A node with its key, its journal and the three shipped views."""

    def __init__(self, community: str, keys: KeyPair, journal: NodeJournal) -> None:
        super().__init__(Replica(community, node=keys.node, base=journal.base, verify=verify, surplus_max=4))
        self.keys = keys
        self.journal = journal
        self.engine = ReplayEngine(self)
        self.engine.register_all(shipped_views(lambda: self.replica.roster))
        if journal.states is not None:
            self.engine.restart(journal.states)
        for new, forks in journal.commits:
            self.replica.apply(new, forks)

    @property
    def name(self) -> str:
        """The NodeID."""
        return self.keys.node

    def store(self, plan: JudgedBatch) -> None:
        """Write to the journal before applying."""
        self.journal.commits.append((list(plan.new), list(plan.forks)))

    def append(self, type_: str, data: dict[str, Any], *, id: bytes, time: int) -> FeedEntry:
        """Append an event of this node."""
        feed = self.replica.feed(self.name)
        entry = mint(
            FeedStreams(self.community),
            self.keys,
            after=(feed.head.seq, feed.head.link),
            lamport=self.replica.clock.next_for_send(),
            type=type_,
            data=data,
            id=id,
            time=time,
        )
        self.take_in(JudgedBatch(new=[entry]))
        return entry

    def declare_floor(self, lamport: int, *, id: bytes, time: int) -> NodeJournal:
        """Declare a floor at a lamport. Returns the disk of a newcomer that begins there."""
        covered = floors.cover(self.replica, floors.heads_at(self.replica, lamport))
        assert covered is not None, "a node has what it would cover"
        states = pack(self.engine.states_of(covered))
        event = self.append(POLICY, floors.payload_of(covered.base, self.replica.base.floor), id=id, time=time)
        newcomer = NodeJournal(covered.base, states)
        below = covered.base.heads.get(self.name, NOTHING).seq
        tail = self.replica.feed(self.name).between(below, event.seq)
        newcomer.commits.append((tail, []))  # it has the declaration from the start, so that it cannot lose only that
        return newcomer

    def outcome(self) -> dict[str, Any]:
        """Everything that honest nodes must agree on."""
        return {
            "order": list(self.replica.counted.keys),
            "fingerprint": self.replica.fingerprint(),
            "views": self.engine.states(),
            "floor": self.replica.base.floor,
        }
