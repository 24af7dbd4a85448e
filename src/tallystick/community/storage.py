"""How a store holds a community: one stream per author, and a second one for events that the first cannot store.

    community.<id>/<author>          the feed: the same bytes, seqs and links on every node
    community.<id>/aside.<author>    events in their wire form, under ids made by this node:
                                     events whose id the store already has (`community.aside.event`),
                                     events of a feed that starts at a snapshot (the same),
                                     the two events that prove a fork (`community.aside.fork`)

When an event of a feed is set aside, so are all later ones. Reading returns what was accepted, commit by commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tallystick import errors
from tallystick.community import wire_format
from tallystick.community.entry import FeedEntry, FeedStreams, from_store, text_of
from tallystick.community.feeds import NOTHING, FeedHead
from tallystick.community.types import MEMBERSHIP_TYPES, POLICY, Event
from tallystick.event import canonical, chain, ids, names
from tallystick.event import model as envelope
from tallystick.event.model import Draft
from tallystick.store import iterate
from tallystick.store.commit import Outcome, Transaction, Write
from tallystick.store.expectation import ANY, Expected
from tallystick.store.maintenance import before_cut
from tallystick.store.selection import Selection
from tallystick.store.store import Store

ASIDE_EVENT = "community.aside.event"
ASIDE_FORK = "community.aside.fork"

Fork = tuple[FeedEntry, FeedEntry]


def from_aside(streams: FeedStreams, document: dict[str, object]) -> FeedEntry:
    """The event of a feed that was set aside, from its wire form."""
    entry = wire_format.entries([msgspec.convert(document, Event)])[0]
    if isinstance(entry, errors.EventLogError):
        raise errors.EventLogError(code="db_corrupt", reason=entry.reason)
    return msgspec.structs.replace(entry, link=chain.checksum(text_of(streams.feed(entry.author), entry)))


class CommunityStorage:
    """Reads and writes one community in one store."""

    def __init__(self, store: Store, community: str) -> None:
        self.store = store
        self.streams = FeedStreams(community)
        self.position = 0  # how far the store was read
        self._heads: dict[str, tuple[int, bytes]] = {}  # the ends of the feeds' streams, as written or read
        self._read_links: dict[str, bytes] = {}  # the last link that was read of each feed
        self._read_ends: dict[str, int] = {}  # the last seq that was read of each stream
        self._kinds = frozenset({self.streams.kind})
        self._base: dict[str, FeedHead] = {}  # where the node starts: earlier events are not needed and may be gone

    # --- reading ---------------------------------------------------------------------------------------------------

    def news(self, until: int | None = None) -> Iterator[FeedEntry | Fork]:
        """What was recorded since the last call, by any process, in the order of recording."""
        head = self.store.head() if until is None else until
        if head <= self.position:
            return
        selection, begun = Selection(kinds=self._kinds), bool(self._base)
        for event in self.store.events(after=self.position, until=head, selection=selection, over_pruned=begun):
            yield from (item for item in self._read(event) if not self._is_covered(item))
        self.position = head

    def _read(self, event: envelope.Event) -> Iterator[FeedEntry | Fork]:
        if event.payload is not None and chain.checksum(event.payload) != event.checksum:
            reason = f"the payload of {event.stream}#{event.seq} is not the one that was recorded"
            raise errors.EventLogError(code="db_corrupt", reason=reason)
        self._read_ends[event.stream] = event.seq
        kept = event.type if names.is_aside(event.stream) else ""  # an author may write any type in a feed
        if kept == ASIDE_EVENT:
            yield from_aside(self.streams, event.data["event"])
        elif kept == ASIDE_FORK:
            yield (from_aside(self.streams, event.data["one"]), from_aside(self.streams, event.data["other"]))
        else:
            author = event.stream.partition("/")[2]
            previous = self._read_links.get(author) or before_cut(self.store.cut(event.stream))[1]
            if chain.link(event, previous) != event.link:
                raise errors.EventLogError(code="db_corrupt", reason=f"the link of {event.stream}#{event.seq} is wrong")
            if event.payload is None and (event.type in MEMBERSHIP_TYPES or event.type == POLICY):
                raise errors.EventLogError(code="db_corrupt", reason=f"{event.stream}#{event.seq} was erased: an act")
            self._read_links[author] = event.link
            if event.seq > self._heads.get(author, (0, b""))[0]:
                self._heads[author] = (event.seq, event.link)
            yield from_store(event, previous)

    def shortened(self) -> str | None:
        """A stream that is longer according to the store than what was read of it; None if there is none."""
        for info in iterate.streams(self.store.log, prefix=f"{self.streams.kind}/"):
            cut = self.store.cut(info.stream)
            if info.seq > max(self._read_ends.get(info.stream, 0), cut.through if cut else 0):
                return info.stream
        return None

    # --- writing ---------------------------------------------------------------------------------------------------

    def keep(self, new: Sequence[FeedEntry], forks: Iterable[Fork]) -> None:
        """Store everything in one commit. Raises `Conflict` if another process wrote first.

        If an author chose an id that exists already, a second commit is needed: that author's events are set aside.
        """
        by_author: dict[str, list[FeedEntry]] = {}
        for entry in new:
            by_author.setdefault(entry.author, []).append(entry)
        transactions = [self._transaction(entries) for entries in by_author.values()]
        transactions += [Transaction([self._aside_fork(fork)]) for fork in forks]
        self._commit(transactions, list(by_author.values()))

    def _commit(self, transactions: list[Transaction], entries: list[list[FeedEntry]]) -> None:
        if not transactions:
            return
        outcomes = self.store.log.commit(transactions)
        taken: list[list[FeedEntry]] = []
        refused: errors.TallyError | None = None
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, errors.DuplicateId) and number < len(entries):
                taken.append(entries[number])
            elif isinstance(outcome, errors.TallyError):
                refused = outcome
            elif number < len(entries) and transactions[number].writes[0].after_link is not None:
                last = entries[number][-1]
                self._heads[last.author] = (last.seq, last.link)
        if refused is not None:
            raise refused
        self._advance(transactions, outcomes)
        if taken:
            self._commit([Transaction([self._aside(each, own_ids=True)]) for each in taken], [])

    def _advance(self, transactions: list[Transaction], outcomes: Sequence[Outcome]) -> None:
        """Skip reading what was just written, if no other process wrote in between."""
        places = [place for outcome in outcomes if isinstance(outcome, list) for place in outcome]
        count = sum(place.last_position - place.first_position + 1 for place in places)
        if not places or min(place.first_position for place in places) != self.position + 1:
            return
        last = max(place.last_position for place in places)
        if last == self.position + count:
            self.position = last
            for transaction, outcome in zip(transactions, outcomes, strict=True):
                write = transaction.writes[0]
                if write.after_link is not None and isinstance(outcome, list):
                    self._read_links[write.stream.partition("/")[2]] = outcome[0].link

    def _transaction(self, entries: list[FeedEntry]) -> Transaction:
        first = entries[0]
        if self._heads.get(first.author, (0, chain.GENESIS)) != (first.seq - 1, first.previous):
            return Transaction([self._aside(entries, own_ids=False)])
        write = Write(self.streams.feed(first.author), [entry.draft for entry in entries], Expected(first.seq - 1))
        write.ids_given = True
        write.times_given = frozenset(range(len(entries)))
        write.after_link = first.previous
        return Transaction([write])

    def _aside(self, entries: list[FeedEntry], *, own_ids: bool) -> Write:
        """Events in their wire form, under their authors' ids if free, so that all runners order them alike."""
        community = self.streams.community
        documents = [{"event": msgspec.to_builtins(wire_format.to_wire(entry, community))} for entry in entries]
        drafts = [self._draft(ASIDE_EVENT, entry, each) for entry, each in zip(entries, documents, strict=True)]
        if not own_ids:
            drafts = [(*draft[:2], entry.id, *draft[3:]) for draft, entry in zip(drafts, entries, strict=True)]
        write = Write(self.streams.aside(entries[0].author), drafts, ANY)
        write.ids_given = not own_ids
        return write

    def _aside_fork(self, fork: Fork) -> Write:
        one, other = (msgspec.to_builtins(wire_format.to_wire(entry, self.streams.community)) for entry in fork)
        draft = self._draft(ASIDE_FORK, fork[0], {"one": one, "other": other})
        return Write(self.streams.aside(fork[0].author), [draft], ANY)

    def _draft(self, type_: str, entry: FeedEntry, document: dict[str, object]) -> Draft:
        now = self.store.clock()
        payload = canonical.encode(document)
        id_ = ids.default.mint(1, time_ns=now)[0]
        return (type_, 1, id_, now, payload, entry.meta, chain.checksum(payload), None)

    def _is_covered(self, item: FeedEntry | Fork) -> bool:
        """Whether an event is below the node's start."""
        return isinstance(item, FeedEntry) and item.seq <= self._base.get(item.author, NOTHING).seq

    def expect(self, heads: dict[str, FeedHead]) -> None:
        """Start at a snapshot. Feeds without a stream here cannot get one any more: their events are set aside.

        A pruned stream continues after its cut, which must not be past what the snapshot covers.
        """
        self._base = dict(heads)
        for author, head in heads.items():
            stream = self.streams.feed(author)
            end, cut = self.store.stream_head(stream), self.store.cut(stream)
            if cut is not None and cut.through > head.seq:
                raise errors.HistoryPruned(what=f"seqs of {stream!r}", first=head.seq + 1, last=cut.through)
            if end is not None:
                self._heads[author] = (end.seq, end.link)
            elif head.seq:
                self._heads[author] = (0, b"")
