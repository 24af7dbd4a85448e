"""A node in gossip: it receives deliveries and answers requests. Subclasses decide where events are stored.

What a peer sends is decoded, verified and answered without the lock of the node. The lock is only held to read or
change its state: a hostile message may cost much, and must not block writers and readers.

These are bounded: a batch, the links and authors of a request, the bytes of an answer, and the held events per peer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tallystick import errors
from tallystick.community import acceptance, messages, wire_format
from tallystick.community.entry import ERASED, FeedEntry
from tallystick.community.feeds import FeedHead
from tallystick.community.items import Items
from tallystick.community.judge import JudgedBatch
from tallystick.community.messages import Delivery, Fetch, HeadsReport, Receipt, Reconcile, Rejected
from tallystick.community.negentropy import Reconciler
from tallystick.community.replica import Replica
from tallystick.community.types import Event

ANSWER_BYTES_MAX = 4 << 20


class GossipNode:
    """The state machine of gossip over a replica. `store` makes new events durable before they are added."""

    def __init__(self, replica: Replica, *, lock: AbstractContextManager[Any] | None = None) -> None:
        self.replica = replica
        self.lock = nullcontext() if lock is None else lock
        self._items: tuple[int, Items] | None = None
        self.floors_seen: dict[str, str] = {}  # peer -> the floor that it reported

    @property
    def community(self) -> str:
        """The community's id."""
        return self.replica.community

    def store(self, plan: JudgedBatch) -> None:
        """Make new events durable. A node without a disk does nothing."""

    # --- receiving -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what other processes wrote to the same store. A node without a disk does nothing."""

    def receive(self, delivery: Delivery, *, peer: str) -> Receipt:
        """Verify, store and add what a peer sent, requested or not. Sending it again changes nothing."""
        self._require_community(delivery.community_id)
        if max(len(delivery.events), len(delivery.witnesses)) > messages.EVENTS_MAX:
            raise errors.BadMessage(what="the delivery", reason=f"it has more than {messages.EVENTS_MAX} events")
        if len(delivery.evidence) > messages.EVIDENCE_MAX:
            raise errors.BadMessage(what="the delivery", reason="it has too much evidence")
        pairs = [self._examine(pair) for pair in delivery.evidence]
        examined = self._examine(delivery.events)
        with self.lock:
            self.refresh()
            self._prove(pairs)
            return self._settle(delivery.events, examined, peer)

    def _take(self, events: Sequence[Event], peer: str) -> Receipt:
        return self._settle(events, self._examine(events), peer)

    def _settle(self, events: Sequence[Event], examined: Sequence[acceptance.Examined], peer: str) -> Receipt:
        entries = [entry for entry in examined if isinstance(entry, FeedEntry)]
        plan = self.replica.plan(entries, peer=peer, bounded=True)
        self.take_in(plan)
        new = {entry.link for entry in plan.new}
        rejected: list[Rejected] = []
        accepted = 0
        for event, entry in zip(events, examined, strict=True):
            code = self._code(entry, plan)
            accepted += isinstance(entry, FeedEntry) and entry.link in new
            if code is not None:
                rejected.append(Rejected(event.event_id, code))
        return Receipt(accepted=accepted, rejected=len(rejected), rejected_reasons=rejected, new_head=self.replica.head)

    def take_in(self, plan: JudgedBatch) -> None:
        """Store what is new, then judge with it."""
        if plan.new or plan.forks or plan.ceiling > self.replica.ceiling:
            self.store(plan)
            self.replica.apply(plan.new, plan.forks, ceiling=plan.ceiling)

    def _code(self, entry: acceptance.Examined, plan: JudgedBatch) -> str | None:
        """The code of an event that was refused, held, or stored without counting."""
        if isinstance(entry, errors.EventLogError):
            return entry.code
        if entry.link in plan.codes:
            return plan.codes[entry.link][0]
        if entry.key in self.replica.counted.by_key:
            return None
        stored = self.replica.by_link.get(entry.link)
        return None if stored is None else self.replica.code_of(stored)

    def _examine(self, events: Sequence[Event]) -> list[acceptance.Examined]:
        return acceptance.examine(events, self.replica.streams, self.replica.verify)

    def witness(self, events: Sequence[Event]) -> None:
        """Use the witnesses that this node asked for. Others are ignored."""
        rungs = [entry for entry in self._examine(events) if isinstance(entry, FeedEntry)]
        with self.lock:
            self.replica.witness(rungs)

    def _prove(self, pairs: Iterable[Sequence[acceptance.Examined]]) -> None:
        """Two validly signed events of one author for one seq prove a fork, whoever sends them."""
        forks = []
        for one, other in pairs:
            if isinstance(one, FeedEntry) and isinstance(other, FeedEntry) and self._is_news(one, other):
                forks.append((one, other))
        if forks:
            self.take_in(JudgedBatch(forks=forks))

    def adopt(self, branch: Sequence[Event], head: FeedHead) -> None:
        """Accept the branch of a forked feed that a floor has settled, if this is that branch, up to the last link.

        Nothing is lost: the events here after the fork did not count.
        """
        entries = [entry for entry in self._examine(branch) if isinstance(entry, FeedEntry)]
        if not entries or (entries[-1].seq, entries[-1].link) != (head.seq, head.link):
            return
        with self.lock:
            feed = self.replica.feed(entries[0].author)
            if not _follow(entries, feed.author, feed.base):
                return
            new = [entry for entry in entries if entry.link not in self.replica.by_link]
            stored = feed.get(new[0].seq) if new else None
            if new:
                self.take_in(JudgedBatch(new=new, forks=[(stored, new[0])] if stored else []))

    def follow(self, branch: Sequence[Event], *, peer: str) -> int:
        """Accept events that continue a feed, beyond the bound for uncounted events, if the last one counts."""
        entries = [entry for entry in self._examine(branch) if isinstance(entry, FeedEntry)]
        with self.lock:
            self.refresh()
            if not entries or not _follow(entries, entries[0].author, self.replica.feed(entries[0].author).head):
                return 0
            if not self.replica.would_count(entries):
                return 0
            plan = self.replica.plan(entries, peer=peer)
            self.take_in(plan)
            return len(plan.new)

    def _is_news(self, one: FeedEntry, other: FeedEntry) -> bool:
        if (one.author, one.seq) != (other.author, other.seq) or one.link == other.link:
            return False
        fork = self.replica.forks().get(one.author)
        return one.author in self.replica.known.nodes and (fork is None or one.seq < fork)

    # --- answering -------------------------------------------------------------------------------------------------

    def heads(self) -> HeadsReport:
        """The ends of everything this node has."""
        replica = self.replica
        with self.lock:
            return HeadsReport(
                community_id=self.community,
                head=replica.head,
                heads_by_type=replica.heads_by_type(),
                tips={author: messages.tip(head) for author, head in replica.tips().items()},
                forks=replica.forks(),
                floor=replica.base.floor.hex(),
                ceiling=replica.ceiling,
            )

    def fetch(self, request: Fetch) -> Delivery:
        """What a peer asked for, as far as this node has it and it fits."""
        self._require_community(request.community_id)
        sizes = (len(request.ranges), len(request.forks), len(request.links))
        if max(sizes[:2]) > messages.AUTHORS_MAX or sizes[2] > messages.LINKS_MAX:
            raise errors.BadMessage(what="the fetch", reason="it asks for too much at once")
        with self.lock:
            chosen = _fitting(self._asked_for(request))
            evidence = [feed.evidence for a in request.forks if (feed := self.replica.feeds.get(a)) and feed.evidence]
            rungs = _fitting(self._rungs(request))
        return Delivery(
            community_id=self.community,
            events=self.events_of(chosen),
            evidence=[(self._wire(one), self._wire(other)) for one, other in evidence[: messages.EVIDENCE_MAX]],
            witnesses=self.events_of(rungs),
        )

    def _rungs(self, request: Fetch) -> list[FeedEntry]:
        if request.ladder is None:
            return []
        return self.replica.ladder(*request.ladder, rungs_max=messages.EVENTS_MAX)

    def _asked_for(self, request: Fetch) -> Iterable[FeedEntry]:
        tips = self.replica.tips()
        parts = [
            feed.between(after, min(until, tips[author].seq))
            for author, (after, until) in request.ranges.items()
            if author in tips and (feed := self.replica.feeds.get(author)) is not None
        ]
        yield from heapq.merge(
            *parts, key=lambda entry: entry.key
        )  # in the order in which they are accepted and folded
        for link in request.links:
            entry = self.replica.by_link.get(_bytes(link))
            if entry is not None:
                yield entry

    def reconcile(self, request: Reconcile) -> Reconcile:
        """Answer one message of a reconciliation. With different floors there is nothing to compare."""
        self._require_community(request.community_id)
        with self.lock:
            floor, items = self.replica.base.floor.hex(), self.items()
        answer = b"" if request.floor != floor else Reconciler(items).answer(request.message)
        return Reconcile(community_id=self.community, floor=floor, message=answer or b"")

    def items(self) -> Items:
        """The counted set as items, cached until it changes."""
        counted = self.replica.counted
        with self.lock:
            if self._items is None or self._items[0] != counted.version:
                self._items = (counted.version, Items((lamport, link) for lamport, _, link in counted.keys))
            return self._items[1]

    def events_of(self, entries: Iterable[FeedEntry]) -> list[Event]:
        """Entries for the wire."""
        return [self._wire(entry) for entry in entries]

    def _wire(self, entry: FeedEntry) -> Event:
        return wire_format.to_wire(entry, self.community)

    def _require_community(self, community: str) -> None:
        if community != self.community:
            raise errors.BadMessage(what="the message", reason="it is for another community")


def _fitting(entries: Iterable[FeedEntry]) -> list[FeedEntry]:
    """As many as fit into an answer."""
    found: list[FeedEntry] = []
    size = 0
    for entry in entries:
        if entry.payload == ERASED:
            continue  # nobody could verify it
        size += len(entry.payload) + len(entry.meta) + 600
        if len(found) >= messages.EVENTS_MAX or (found and size > ANSWER_BYTES_MAX):
            break
        found.append(entry)
    return found


def _follow(entries: Iterable[FeedEntry], author: str, at: FeedHead) -> bool:
    """Whether these are consecutive events of one author, starting after a given one."""
    for entry in entries:
        if (entry.author, entry.seq, entry.previous) != (author, at.seq + 1, at.link):
            return False
        at = FeedHead(entry.seq, entry.link, entry.lamport)
    return True


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise errors.BadMessage(what="the fetch", reason="a link is not hex") from None
