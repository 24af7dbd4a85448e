"""For tests of communities: keys that are the same in every run, authors without a log, and gossip in one process."""

from __future__ import annotations

from typing import Any

from tallystick.community.entry import FeedEntry, FeedStreams, mint
from tallystick.community.identity import KeyPair
from tallystick.community.node import GossipNode
from tallystick.community.replay import ReplayEngine
from tallystick.community.session import SyncSession, answer
from tallystick.community.types import Event
from tallystick.community.views import shipped_views
from tallystick.community.wire_format import to_wire
from tallystick.event import chain, ids

TIME_NS = 1_700_000_000_000_000_000


def keys(number: int) -> KeyPair:
    """A key that is the same in every run."""
    return KeyPair(bytes([number]) * 32)


class Author:
    """An author who signs events without a log, as an adversary would."""

    def __init__(self, key: KeyPair, community: str) -> None:
        self.keys = key
        self.node = key.node
        self.community = community
        self.head: tuple[int, bytes] = (0, chain.GENESIS)
        self.lamport = 0

    def entry(self, type_: str = "chat.message.sent", data: Any = None, **fields: Any) -> FeedEntry:
        """An event after the last one. It does not become the last one."""
        given: dict[str, Any] = {"after": self.head, "lamport": self.lamport + 1, "time": TIME_NS} | fields
        given.setdefault("id", ids.default.mint(1, time_ns=TIME_NS)[0])
        return mint(FeedStreams(self.community), self.keys, type=type_, data=data or {"text": "x"}, **given)

    def write(self, type_: str = "chat.message.sent", data: Any = None, **fields: Any) -> Event:
        """Write the next event of the feed. Returns it in wire form."""
        entry = self.entry(type_, data, **fields)
        self.head, self.lamport = (entry.seq, entry.link), entry.lamport
        return to_wire(entry, self.community)


def engine_over(log: Any) -> ReplayEngine:
    """An engine with the three shipped views over a log."""
    engine = ReplayEngine(log)
    engine.register_all(shipped_views(lambda: log.replica.roster))
    return engine


def gossip(one: GossipNode, other: GossipNode, **options: Any) -> SyncSession:
    """One round of gossip between two nodes in one process."""
    session = SyncSession(one, "peer", **options)
    talk = session.run()
    request = next(talk)
    try:
        while True:
            request = talk.send(answer(other, request, peer="other"))
    except StopIteration:
        return session
