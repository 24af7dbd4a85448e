"""One round of gossip with one peer, as a generator: it yields requests and is sent the responses.

First the ends of feeds, which reveal everything that is missing there; then evidence of forks; then set reconciliation
over the counted sets, which finds all other differences; last the lamports that held events wait for. The same code
runs over HTTP and in the simulator. An interrupted round loses nothing: what arrived is stored.

A round has a budget of requests, which grows with what arrives: a round with a peer that brings little ends soon, and
the next round continues. State is read under the lock of the node, which is never held during a request.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeAlias, cast

import msgspec

from tallystick import errors
from tallystick.community import messages
from tallystick.community.entry import ERASED, FeedEntry
from tallystick.community.messages import (
    Delivery,
    Fetch,
    HeadsReport,
    HeadsRequest,
    Receipt,
    Reconcile,
    Request,
    Response,
)
from tallystick.community.negentropy import Reconciler
from tallystick.community.node import GossipNode
from tallystick.community.types import Event

ROUNDS_MAX = 64
PASSES_MAX = 1000
NEED_MAX = 200_000
REQUESTS_MAX = 64
EVENTS_PER_REQUEST = 50  # this many events that arrived or were sent allow one more request
BRANCH_MAX = 20_000

Talk: TypeAlias = "Generator[Request, Response, None]"


class RoundCounts(msgspec.Struct):
    """How much a round transferred."""

    sent: int = 0
    received: int = 0
    requests: int = 0
    reconcile_bytes: int = 0
    differed: bool = False
    cut_short: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether the budget of the round is used up."""
        return self.requests >= REQUESTS_MAX + (self.received + self.sent) // EVENTS_PER_REQUEST


class _Spent(Exception):
    pass


class SyncSession:
    """A round with one peer."""

    def __init__(self, node: GossipNode, peer: str, *, reconciles: bool = True) -> None:
        self._node = node
        self._replica = node.replica
        self._peer = peer
        self._reconciles = reconciles
        self.tally = RoundCounts()

    @property
    def community(self) -> str:
        """The id of the community."""
        return self._node.community

    def run(self) -> Talk:
        """Run the round until its budget is used up."""
        try:
            yield from self._round()
        except _Spent:
            self.tally.cut_short = True

    def _round(self) -> Talk:
        theirs = cast(HeadsReport, (yield self._count(HeadsRequest(community_id=self._node.community))))
        self._node.floors_seen[self._peer] = theirs.floor
        if theirs.tips is None:
            yield from self.push_by_type(theirs)
            return
        yield from self._pull_tips(theirs)
        yield from self._swap_forks(theirs)
        yield from self._push_tips(theirs)
        yield from self._settle_branches()
        if self._reconciles:
            yield from self._reconcile()
        yield from self._climb()

    def take_back(self) -> Talk:
        """Fetch the part of this node's own feed that the peer has and this node lacks."""
        theirs = cast(HeadsReport, (yield self._count(HeadsRequest(community_id=self._node.community))))
        own = str(self._replica.node)
        tips = {author: tip for author, tip in (theirs.tips or {}).items() if author == own}
        yield from self._pull_tips(msgspec.structs.replace(theirs, tips=tips))

    def push_by_type(self, theirs: HeadsReport) -> Talk:
        """Push events to a peer that only reports the highest lamport of each type. It may still miss some."""
        heads = theirs.heads_by_type
        with self._node.lock:
            entries = [e for e in self._replica.counted.entries() if e.lamport > heads.get(e.type, 0)]
        yield from self._push(entries)

    # --- ends of feeds ---------------------------------------------------------------------------------------------

    def _pull_tips(self, theirs: HeadsReport) -> Talk:
        for _ in range(PASSES_MAX):
            ranges = self._lacking(theirs)
            if not ranges:
                return
            found = yield from self._fetch(Fetch(community_id=self._node.community, ranges=ranges))
            if not found and not (yield from self._follow(ranges)):
                return

    def _follow(self, ranges: dict[str, tuple[int, int]]) -> Generator[Request, Response, int]:
        """Fetch the events of an author without a rank that did not fit, and accept them if the last one counts."""
        found = 0
        for author, (after, until) in ranges.items():
            room = self._replica.room(author)
            if room is not None and room <= 0 and until - after <= BRANCH_MAX:
                branch = yield from self._branch(author, after, until)
                found += self._node.follow(branch, peer=self._peer)
        self.tally.received += found
        return found

    def _branch(self, author: str, after: int, until: int) -> Generator[Request, Response, list[Event]]:
        """Fetch a part of a feed without adding it."""
        branch: list[Event] = []
        for _ in range(PASSES_MAX):
            begin = branch[-1].seq if branch else after
            request = Fetch(community_id=self._node.community, ranges={author: (begin, until)})
            part = cast(Delivery, (yield self._count(request))).events
            branch += part
            if not part or not begin < branch[-1].seq < until or len(branch) > BRANCH_MAX:
                break
        return branch

    def _lacking(self, theirs: HeadsReport) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for author, (seq, _) in (theirs.tips or {}).items():
            feed = self._replica.feeds.get(author)
            have = feed.head.seq if feed else 0
            complete = feed is not None and feed.fork is not None and have >= feed.fork - 1
            if seq > have and not complete and len(found) < messages.AUTHORS_MAX:
                found[author] = (have, seq)
        return found

    def _push_tips(self, theirs: HeadsReport) -> Talk:
        assert theirs.tips is not None
        entries: list[FeedEntry] = []
        with self._node.lock:
            for author, head in self._replica.tips().items():
                entries += self._replica.feeds[author].between(theirs.tips.get(author, (0, ""))[0], head.seq)
        yield from self._push(entries)

    # --- forks -----------------------------------------------------------------------------------------------------

    def _swap_forks(self, theirs: HeadsReport) -> Talk:
        with self._node.lock:
            ours = self._replica.forks()
        wanted = [author for author, seq in theirs.forks.items() if author not in ours or seq < ours[author]]
        if wanted:
            yield from self._fetch(Fetch(community_id=self._node.community, forks=wanted[: messages.EVIDENCE_MAX]))
        news = [author for author, seq in ours.items() if author not in theirs.forks or seq < theirs.forks[author]]
        pairs = [self._replica.feeds[author].evidence for author in news[: messages.EVIDENCE_MAX]]
        if pairs:
            evidence = [tuple(self._node.events_of(pair)) for pair in pairs if pair]
            delivery = Delivery(community_id=self._node.community, evidence=evidence)  # type: ignore[arg-type]
            yield self._count(delivery)

    def _settle_branches(self) -> Talk:
        """Fetch the branch that a floor has settled, if this node has another one or none."""
        with self._node.lock:
            unsettled = self._replica.unsettled()
            begins = {author: self._replica.feed(author).base.seq for author in unsettled}
        for author, head in unsettled.items():
            branch = yield from self._branch(author, begins[author], head.seq)
            self._node.adopt(branch, head)

    # --- any other difference --------------------------------------------------------------------------------------

    def _reconcile(self) -> Talk:
        with self._node.lock:
            reconciler, floor = Reconciler(self._node.items()), self._replica.base.floor.hex()
        message: bytes | None = reconciler.begin()
        for _ in range(ROUNDS_MAX):
            assert message is not None
            request = Reconcile(community_id=self._node.community, floor=floor, message=message)
            answer = cast(Reconcile, (yield self._count(request)))
            self.tally.reconcile_bytes += len(message) + len(answer.message)
            if answer.floor != floor:
                return
            message = reconciler.answer(answer.message)
            if message is None or len(reconciler.need) > NEED_MAX:  # bounds what a peer can make this node remember
                break
        self.tally.differed = bool(reconciler.have or reconciler.need)
        yield from self._fetch_links(sorted(reconciler.need))
        with self._node.lock:
            known = [self._replica.by_link[link] for link in reconciler.have if link in self._replica.by_link]
        yield from self._push(known)

    def _fetch_links(self, links: list[bytes]) -> Talk:
        for at in range(0, len(links), messages.EVENTS_MAX):
            chunk = [link.hex() for link in links[at : at + messages.EVENTS_MAX]]
            yield from self._fetch(Fetch(community_id=self._node.community, links=chunk))

    def _climb(self) -> Talk:
        """Ask for the events that justify the lamports of held ones. This node may lack them because they do not
        count.
        """
        for _ in range(ROUNDS_MAX):
            with self._node.lock:
                before, reach, goal = self._replica.ceiling, self._replica.reach, self._replica.held.highest()
            if goal <= reach:
                return
            yield from self._fetch(Fetch(community_id=self._node.community, ladder=(before, goal)))
            if self._replica.ceiling == before:
                return

    # --- moving events ---------------------------------------------------------------------------------------------

    def _fetch(self, request: Fetch) -> Generator[Request, Response, int]:
        delivery = cast(Delivery, (yield self._count(request)))
        self._node.witness(delivery.witnesses)
        receipt = self._node.receive(delivery, peer=self._peer)
        self.tally.received += receipt.accepted
        return receipt.accepted

    def _push(self, entries: Iterable[FeedEntry]) -> Talk:
        ordered = sorted((e for e in entries if e.payload != ERASED), key=lambda entry: entry.key)
        for at in range(0, len(ordered), messages.EVENTS_MAX):
            events = self._node.events_of(ordered[at : at + messages.EVENTS_MAX])
            receipt = cast(Receipt, (yield self._count(Delivery(community_id=self._node.community, events=events))))
            self.tally.sent += max(0, min(receipt.accepted, len(events)))

    def _count(self, request: Request) -> Request:
        if self.tally.is_spent:
            raise _Spent
        self.tally.requests += 1
        return request


def answer(node: GossipNode, request: Request, *, peer: str) -> Response:
    """The other side of a round: a node's response to a request."""
    if isinstance(request, HeadsRequest):
        return node.heads()
    if isinstance(request, Delivery):
        return node.receive(request, peer=peer)
    if isinstance(request, Fetch):
        return node.fetch(request)
    if isinstance(request, Reconcile):
        return node.reconcile(request)
    raise errors.BadMessage(what="the request", reason="its kind is unknown")
