"""Nodes of a simulated community. Their disk is a list, so that a crash and a restored backup cost nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tallystick.community import identity
from tallystick.community.entry import Entry, Streams, mint
from tallystick.community.identity import KeyPair
from tallystick.community.judging import Plan
from tallystick.community.node import Node
from tallystick.community.replay import ReplayEngine
from tallystick.community.replica import Replica
from tallystick.community.views import ChatView, MarketplaceView, MembersView

verify = lru_cache(maxsize=1 << 14)(identity.verify)
"""Every node verifies every event; in one process the answer is the same, and found once."""


class Journal:
    """What a node has on disk: commits, in order."""

    def __init__(self) -> None:
        self.commits: list[tuple[list[Entry], list[tuple[Entry, Entry]]]] = []


class SimulatedNode(Node):
    """A node with its key, its journal and the three shipped views."""

    def __init__(self, community: str, keys: KeyPair, journal: Journal) -> None:
        super().__init__(Replica(community, node=keys.node, verify=verify))
        self.keys = keys
        self.journal = journal
        self.engine = ReplayEngine(self)
        self.engine.register("chat", ChatView(), ChatView.types)
        self.engine.register("marketplace", MarketplaceView(), MarketplaceView.types)
        self.engine.register("members", MembersView(lambda: self.replica.roster), MembersView.types)
        for new, forks in journal.commits:
            self.replica.apply(new, forks)

    @property
    def name(self) -> str:
        """Its NodeID."""
        return self.keys.node

    def store(self, plan: Plan) -> None:
        """Journal before taking in."""
        self.journal.commits.append((list(plan.new), list(plan.forks)))

    def append(self, type_: str, data: dict[str, Any], *, id: bytes, time: int) -> Entry:
        """Write an event of one's own."""
        feed = self.replica.feed(self.name)
        entry = mint(
            Streams(self.community),
            self.keys,
            after=(feed.head.seq, feed.head.link),
            lamport=self.replica.clock.next_for_send(),
            type=type_,
            data=data,
            id=id,
            time=time,
        )
        self.take_in(Plan(new=[entry]))
        return entry

    def outcome(self) -> dict[str, Any]:
        """Everything on which honest nodes must agree."""
        return {
            "order": list(self.replica.counted.keys),
            "fingerprint": self.replica.fingerprint(),
            "views": self.engine.states(),
            "floor": self.replica.base.floor,
        }
