"""A member that lies: it writes whatever it can sign, and shows different events to different nodes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from tallystick.community import wire_format
from tallystick.community.entry import FeedEntry, FeedStreams, mint
from tallystick.community.identity import KeyPair
from tallystick.community.types import LAMPORT_AHEAD_MAX, Event
from tallystick.event import chain, ids

ORDER_L = (1 << 252) + 27742317777372353535851937790883648493
LAMPORT_MAX = (1 << 63) - 1

Show = Callable[[list[Event], list[int]], None]
"""Called with events and the honest nodes that receive them."""


class Adversary:
    """A byzantine member. `show` delivers events to chosen nodes. `seen` holds the events of others."""

    def __init__(self, community: str, keys: KeyPair, random: Random, *, nodes: int, show: Show) -> None:
        self.keys = keys
        self._streams = FeedStreams(community)
        self._random = random
        self._nodes = nodes
        self._show = show
        self._tips: list[FeedEntry | None] = [None]  # the ends of its branches
        self._all: list[FeedEntry] = []
        self.seen: list[Event] = []
        self.peers: list[str] = []
        self.moves: list[Callable[[], None]] = [
            self.speak,
            self.speak,
            self.fork,
            self.leap,
            self.climb,
            self.copy_id,
            self.backdate,
            self.replay,
            self.spoil,
            self.impersonate,
            self.flood,
            self.invent,
            self.overreach,
            self.gap,
        ]

    def move(self) -> None:
        """Make a random move."""
        self._random.choice(self.moves)()

    def join(self, invite: str, lamport: int) -> None:
        """Join like anyone else, and show the event to all nodes."""
        self._write("community.member.joined", {"invite": invite}, lamport=lamport, to=range(self._nodes))

    def speak(self) -> None:
        """Send an ordinary event to some nodes."""
        self._write("chat.message.sent", {"text": f"m{len(self._all)}"})

    def fork(self) -> None:
        """Fork: two events with the same seq, each for other nodes. Both branches continue."""
        tip = self._random.choice(self._tips)
        some = self._some()
        rest = [node for node in range(self._nodes) if node not in some]
        for number, nodes in enumerate((some, rest)):
            entry = self._entry("market.post.created", {"post": f"p{number}", "price": number}, tip)
            self._keep(entry, None)
            self._show([self._wire(entry)], nodes)

    def leap(self) -> None:
        """Send a lamport that would spoil every clock."""
        lamport = self._random.choice([LAMPORT_MAX, LAMPORT_MAX - 5, 1 << 62, 5 * LAMPORT_AHEAD_MAX])
        tip = self._random.choice(self._tips)
        self._show([self._wire(self._entry("chat.message.sent", {"text": "leap"}, tip, lamport=lamport))], self._some())

    def climb(self) -> None:
        """Send the highest allowed lamport to one node only."""
        tip = self._random.choice(self._tips)
        lamport = (tip.lamport if tip else 0) + LAMPORT_AHEAD_MAX - 50
        self._write("chat.message.sent", {"text": "climb"}, lamport=lamport, to=[self._random.randrange(self._nodes)])

    def copy_id(self) -> None:
        """Use the event id of another author."""
        if self.seen:
            copied = ids.from_ulid(self._random.choice(self.seen).event_id)
            self._write("chat.message.sent", {"text": "copied"}, id=copied)

    def backdate(self) -> None:
        """Send the lowest lamport that its feed allows, as if written long ago."""
        tip = self._random.choice(self._tips)
        self._write("market.post.created", {"post": "old"}, lamport=(tip.lamport if tip else 0) + 1)

    def replay(self) -> None:
        """Send known events again, many times."""
        if self.seen:
            self._show(self._random.choices(self.seen, k=20), self._some())

    def spoil(self) -> None:
        """Send signatures that are wrong by one bit, or by the order of the group."""
        entry = self._entry("chat.message.sent", {"text": "spoilt"}, self._random.choice(self._tips))
        flipped = bytes([entry.signature[0] ^ 1]) + entry.signature[1:]
        scalar = int.from_bytes(entry.signature[32:], "little") + ORDER_L
        malleable = entry.signature[:32] + (scalar % (1 << 256)).to_bytes(32, "little")
        spoilt = [msgspec.structs.replace(entry, signature=signature) for signature in (flipped, malleable)]
        self._show([self._wire(each) for each in spoilt], self._some())

    def impersonate(self) -> None:
        """Sign with its own key under another name, and under a small-order key."""
        entry = self._entry("chat.message.sent", {"text": "not me"}, None)
        for author in [*self._random.sample(self.peers, 1), "ed25519:" + "00" * 32]:
            event = self._wire(entry)
            event = msgspec.structs.replace(event, author=author, meta=event.meta | {"author": author})
            self._show([event], self._some())

    def flood(self) -> None:
        """Send many events of a key that nobody invited."""
        stranger = KeyPair(self._random.randbytes(32))
        last: FeedEntry | None = None
        events = []
        for number in range(15):
            last = self._entry("chat.message.sent", {"text": str(number)}, last, keys=stranger)
            events.append(self._wire(last))
        self._show(events, self._some())

    def invent(self) -> None:
        """Send types and schema versions that do not exist."""
        type_, version = self._random.choice([("bank.account.emptied", 1), ("chat.message.sent", 7)])
        self._write(type_, {"text": "?"}, version=version)

    def overreach(self) -> None:
        """Try acts that its rank may not allow."""
        target = self._random.choice(self.peers)
        type_ = self._random.choice(["revoked", "demoted", "promoted", "invited"])
        data = {"node": target, "seq": 0, "role": self._random.choice(["member", "admin"])}
        self._write(f"community.member.{type_}", data)

    def gap(self) -> None:
        """Send an event whose predecessor no node gets."""
        tip = self._random.choice(self._tips)
        hidden = self._entry("chat.message.sent", {"text": "hidden"}, tip)
        shown = self._entry("chat.message.sent", {"text": "after it"}, hidden)
        self._show([self._wire(shown)], self._some())

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, type_: str, data: dict[str, Any], *, to: Any = None, **fields: Any) -> None:
        tip = self._random.choice(self._tips)
        entry = self._entry(type_, data, tip, **fields)
        self._keep(entry, tip)
        self._show([self._wire(entry)], self._some() if to is None else list(to))

    def _keep(self, entry: FeedEntry, tip: FeedEntry | None) -> None:
        if tip in self._tips and (tip is not None or len(self._all) == 0):
            self._tips.remove(tip)
        self._tips.append(entry)
        self._all.append(entry)

    def _entry(
        self,
        type_: str,
        data: dict[str, Any],
        tip: FeedEntry | None,
        *,
        lamport: int | None = None,
        id: bytes | None = None,
        version: int = 1,
        keys: KeyPair | None = None,
    ) -> FeedEntry:
        heard = max((event.lamport for event in self.seen[-5:]), default=0)
        least = (tip.lamport if tip else 0) + 1
        return mint(
            self._streams,
            keys or self.keys,
            after=(tip.seq, tip.link) if tip else (0, chain.GENESIS),
            lamport=max(least, heard + 1) if lamport is None else min(lamport, LAMPORT_MAX),
            type=type_,
            data=data,
            id=id or self._random.randbytes(16)[:6].ljust(16, b"\x07"),
            time=1_700_000_000_000_000_000,
            version=version,
        )

    def _wire(self, entry: FeedEntry) -> Event:
        return wire_format.to_wire(entry, self._streams.community)

    def _some(self) -> list[int]:
        return self._random.sample(range(self._nodes), self._random.randint(1, self._nodes))
