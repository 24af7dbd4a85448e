"""The event log of one community: signed events of many authors over any store, merged in one order.

The store is the source of truth. It is read at opening and after another process wrote; everything else is derived from
it. Acknowledged events are on disk. Methods can be called from any thread, `subscribe` from any event loop.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from tallystick import errors
from tallystick.community import identity, inserts, wire_format
from tallystick.community.acceptance import Verify
from tallystick.community.entry import FeedEntry, mint
from tallystick.community.floors import Base
from tallystick.community.held import Held
from tallystick.community.identity import KeyPair
from tallystick.community.inserts import LOCAL, RECEIVED, Inserted
from tallystick.community.judge import JudgedBatch, error_of
from tallystick.community.node import GossipNode
from tallystick.community.replica import Replica
from tallystick.community.storage import CommunityStorage
from tallystick.community.types import CREATED, DEMOTED, JOINED, KNOWN_TYPES, RESERVED_TYPES, REVOKED, Event
from tallystick.event import canonical, guard, ids
from tallystick.store.store import Store

PROFILE = "community"
RETRIES_MAX = 20


Ask: TypeAlias = "Callable[[EventLog], None]"
"""Asks peers for this node's own head: see `OwnHead`."""


class EventLog(GossipNode):
    """The log of one community in a store with the profile `community`. `node` is the NodeID that writes here.

    `ask` is called once, before the first event is written here.
    """

    def __init__(
        self,
        store: Store,
        community_id: str,
        *,
        node: str | None = None,
        base: Base | None = None,
        verify: Verify = identity.verify,
        held: Held | None = None,
        ask: Ask | None = None,
    ) -> None:
        if store.profile.name != PROFILE:
            raise errors.InvalidValue(what="profile", value=store.profile.name, must=f"{PROFILE!r} for a community")
        identity.public_key(community_id)
        self.lock: Any = threading.RLock()
        super().__init__(Replica(community_id, node=node, base=base, verify=verify, held=held), lock=self.lock)
        self.disk = store
        self.clock = store.clock
        self._keeper = CommunityStorage(store, community_id)
        self._by_id: dict[bytes, FeedEntry] = {}
        self._copies: dict[bytes, list[FeedEntry]] = {}  # further events whose authors chose an id that exists already
        self._arrived: list[FeedEntry] = []
        self.wakers: list[Callable[[], None]] = []
        self._ask = ask
        self._asking = threading.Lock()
        self.on_append: list[Callable[[Event], None]] = []  # best-effort fan-out to peers
        self.on_insert: list[Inserted] = [inserts.log_line]
        if base is not None:
            self._keeper.expect(base.heads)
        self._open()

    def _open(self) -> None:
        try:
            if holes := self.disk.holes():
                raise errors.EventLogError(code="db_corrupt", reason=holes[0].reason)
            self.refresh()
        except errors.Damaged as damage:
            raise errors.EventLogError(code="db_corrupt", reason=damage.reason) from damage
        self._require_ends()

    def _require_ends(self) -> None:
        """Refuse a log from which less can be read than the store says there is: its clock would go back, and the node
        would sign a second event for an existing seq. The store keeps the ends of streams apart from their events."""
        while (stream := self._keeper.shortened()) is not None:
            read = self._keeper.position
            self.refresh()
            if self._keeper.position == read:  # so it is not that another process wrote in the meantime
                reason = f"{stream} ends before its end: events of it are missing, and the clock with them"
                raise errors.EventLogError(code="db_corrupt", reason=reason)

    # --- writing ---------------------------------------------------------------------------------------------------

    def append_local(self, event_type: str, data: dict[str, Any], author_kp: KeyPair) -> Event:
        """Create, sign and store an event of this node, then pass it to subscribers and peers."""
        if event_type not in KNOWN_TYPES or event_type in RESERVED_TYPES:
            raise error_of("schema_unknown", f"{event_type!r} is not a type that can be written here")
        self._ask_first()
        with self.lock:
            self._inspect(event_type, data)
            for _ in range(RETRIES_MAX):
                self.refresh()
                entry = self._mint(event_type, self._completed(event_type, data), author_kp)
                self._require_standing(entry)
                try:
                    self._keep(JudgedBatch(new=[entry]), origin=LOCAL)
                    break
                except errors.Conflict:
                    continue  # another process wrote to this feed: sign again after it
            else:
                raise errors.Busy(waited_ms=0)
            if len(self.replica.held):
                self.take_in(self.replica.plan(()))  # held events may have waited for this one
        event = wire_format.to_wire(entry, self.community)
        for hand_on in self.on_append:
            hand_on(event)
        return event

    def _ask_first(self) -> None:
        """Ask the peers for this node's own head, once. Without the lock of the log, which the answers need."""
        with self._asking:
            if self._ask is not None:
                self._ask(self)
                self._ask = None

    def append_received(self, event: Event, *, peer: str = "") -> bool:
        """Store an event that a peer sent. True if it is new and counts, False if it existed already.

        Raises an error with its code if the event is refused, held, or stored but not counted.
        """
        (entry,) = self._examine([event])
        if isinstance(entry, errors.EventLogError):
            raise entry
        with self.lock:
            if entry.link in self.replica.by_link:
                return False
            plan = self.replica.plan([entry], peer=peer, bounded=True)
            self.take_in(plan)
            if entry.link in plan.codes:
                raise error_of(*plan.codes[entry.link])
            code = self.replica.code_of(entry)
            if code is not None:
                raise error_of(code, f"event {entry.seq} of {entry.author} was stored, but does not count")
            return True

    def take_in(self, plan: JudgedBatch) -> None:
        """Store what is new, then judge with it. If another process wrote first, judge again after its events."""
        for _ in range(RETRIES_MAX):
            try:
                self._keep(plan)
                return
            except errors.Conflict:
                self.refresh()
                again = self.replica.plan(plan.new)
                plan.new, plan.forks = again.new, [*plan.forks, *again.forks]
        raise errors.Busy(waited_ms=0)

    def _keep(self, plan: JudgedBatch, *, origin: str = RECEIVED) -> None:
        self._keeper.keep(plan.new, plan.forks)
        self.replica.apply(plan.new, plan.forks, ceiling=plan.ceiling)
        self._arrive(plan.new)
        for entry in plan.new:
            code = self.replica.code_of(entry)
            for told in self.on_insert:
                told(entry, origin, code)

    def refresh(self) -> None:
        """Read what other processes wrote."""
        with self.lock:
            new: list[FeedEntry] = []
            forks: list[tuple[FeedEntry, FeedEntry]] = []
            for item in self._keeper.news():
                if isinstance(item, tuple):
                    forks.append(item)
                elif item.link not in self.replica.by_link:
                    new.append(item)
            if new or forks:
                self.replica.apply(new, forks)
                self._arrive(new)

    def _mint(self, event_type: str, data: dict[str, Any], keys: KeyPair) -> FeedEntry:
        head = self.replica.feed(keys.node).head
        now = self.clock()
        return mint(
            self.replica.streams,
            keys,
            after=(head.seq, head.link),
            lamport=self.replica.clock.next_for_send(),
            type=event_type,
            data=data,
            id=ids.default.mint(1, time_ns=now)[0],
            time=now,
        )

    def _completed(self, event_type: str, data: dict[str, Any]) -> dict[str, Any]:
        """Add the last seen seq of its target to a revocation, so that no later event can be added before it."""
        if event_type not in (REVOKED, DEMOTED) or "seq" in data:
            return data
        feed = self.replica.feeds.get(str(data.get("node")))
        return data | {"seq": feed.head.seq if feed else 0}

    def _require_standing(self, entry: FeedEntry) -> None:
        """Refuse to write an event that would not count, except the first events of a founder and of a newcomer."""
        founding = entry.type == CREATED and entry.author == self.community and entry.seq == 1
        code = None if founding or entry.type == JOINED else self._standing(entry)
        if code is not None:
            raise error_of(code, f"{entry.author} is not a member, so the event would not count")

    def _standing(self, entry: FeedEntry) -> str | None:
        self.replica.feed(entry.author)
        return self.replica.code_of(entry)

    def _inspect(self, event_type: str, data: dict[str, Any]) -> None:
        """Run the secret guard on events written here. Refusing events of peers would make the nodes disagree."""
        secrets = guard.make(self.disk.settings["secrets"])
        if secrets is not None:
            payload = canonical.encode(data)
            if secrets.suspects(payload):
                secrets.inspect(where=f"payload of {event_type}", text=payload)

    def _arrive(self, entries: Sequence[FeedEntry]) -> None:
        for entry in entries:
            if self._by_id.setdefault(entry.id, entry) is not entry:
                self._copies.setdefault(entry.id, []).append(entry)
        self._arrived += entries
        for wake in list(self.wakers):
            wake()

    @property
    def arrivals(self) -> int:
        """How many events have arrived here, written or received, since this log was opened and read."""
        return len(self._arrived)

    def arrived(self, at: int) -> tuple[list[FeedEntry], int]:
        """The events that arrived after the first `at`, and the new total."""
        with self.lock:
            return self._arrived[at:], len(self._arrived)

    # --- reading ---------------------------------------------------------------------------------------------------

    def head(self) -> int:
        """The highest lamport that is stored."""
        return self.replica.head

    def get(self, event_id: str) -> Event | None:
        """The event with this id. If an id was copied, the first counted event in the merged order."""
        try:
            id_ = ids.from_ulid(event_id)
        except ValueError:
            return None
        found = [self._by_id[id_], *self._copies.get(id_, [])] if id_ in self._by_id else []
        counting = sorted((entry for entry in found if entry.key in self.replica.counted.by_key), key=lambda e: e.key)
        chosen = [*counting, *found]
        return wire_format.to_wire(chosen[0], self.community) if chosen else None

    def replay(
        self, *, since_lamport: int = 0, event_types: Iterable[str] | None = None, limit: int | None = None
    ) -> Iterator[Event]:
        """The events that count, in the merged order, from a lamport on."""
        wanted = None if event_types is None else frozenset(event_types)
        counted = self.replica.counted
        count = 0
        for entry in counted.entries(bisect_left(counted.keys, (since_lamport, b"", b""))):
            if limit is not None and count >= limit:
                return
            if wanted is None or entry.type in wanted:
                count += 1
                yield wire_format.to_wire(entry, self.community)

    def heads_by_type(self) -> dict[str, int]:
        """The highest lamport of each type that counts."""
        return self.replica.heads_by_type()

    async def subscribe(self, event_types: Iterable[str] | None = None) -> AsyncIterator[Event]:
        """New counted events as they arrive, from now on. A slow reader misses none: the log waits for it."""
        wanted = None if event_types is None else frozenset(event_types)
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(news.set)

        at = len(self._arrived)
        self.wakers.append(wake)
        try:
            while True:
                while at < len(self._arrived):
                    entry = self._arrived[at]
                    at += 1
                    if (wanted is None or entry.type in wanted) and self.replica.code_of(entry) is None:
                        yield wire_format.to_wire(entry, self.community)
                await news.wait()
                news.clear()
        finally:
            self.wakers.remove(wake)
