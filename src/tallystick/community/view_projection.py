"""A view of a community as a projection, so that every runner can make its rows: live, rebuilt, on Spark.

A row is a community. Its state is what `snapshot_state` returns at the end of the counted set. A single event does not
tell which events count, so `prepare` reads the log up to the end of a batch and makes a `CountedBase`: a small value
that is sent to the workers. Each row names the counted base it was made with. Under another one it is folded again.

`prepare` folds what a floor covers once, as the `ReplayEngine` does, and the rest is folded on top of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from tallystick.community import wire_format
from tallystick.community.counted_set import stands
from tallystick.community.entry import FeedEntry, FeedStreams, from_store
from tallystick.community.feeds import FeedHead
from tallystick.community.floors import Base
from tallystick.community.replay import MaterialisedView, pack
from tallystick.community.replica import Replica
from tallystick.community.roster import Roster
from tallystick.community.storage import ASIDE_EVENT, ASIDE_FORK, CommunityStorage, from_aside
from tallystick.community.types import EVENT_TYPES
from tallystick.event import canonical, chain, names
from tallystick.event import model as envelope
from tallystick.projections import merged_order
from tallystick.projections.model import BY_LAMPORT, Projection
from tallystick.store.store import Store
from tallystick.store.views import BY_KIND

PREFIX = "community."
TOKEN_BYTES = 16

STREAMS = 1000  # read at a time


class CountedBase:
    """Which events count in one community up to a position, and the state that the others are folded onto."""

    def __init__(self, replica: Replica, begin: bytes | None) -> None:
        self.community = replica.community
        self.roster: Roster = replica.roster
        self.forks: Mapping[str, int] = replica.forks()
        self.floor: Mapping[str, FeedHead] = replica.base.heads
        self.begin = begin
        known = [f"{node} {line}" for node, line in sorted(self.roster.lines().items())]
        known += [f"{author} {seq}" for author, seq in sorted(self.forks.items())]
        text = "\n".join([replica.base.floor.hex(), *known])
        self.token = hashlib.sha256(text.encode()).digest()[:TOKEN_BYTES]

    def counts(self, entry: FeedEntry) -> bool:
        """Whether an event counts, above the floor."""
        return stands(entry, self.forks.get(entry.author), self.roster, self.floor)


class Beginning(msgspec.Struct, frozen=True):
    """Where a log starts that lacks part of its community: what a snapshot covers, and the states there."""

    base: Base
    states: dict[str, bytes]


class ViewProjection(Projection):
    """The rows of a view. A subclass names the view, and the key of its state in snapshots."""

    name = "ViewProjection"
    order = BY_LAMPORT
    key = BY_KIND
    types = (*EVENT_TYPES, ASIDE_EVENT, ASIDE_FORK)  # all of them: any event may complete a floor
    view_name: ClassVar[str] = ""
    view_types: ClassVar[tuple[str, ...]] = ()

    def __init__(self, beginning: Beginning | None = None) -> None:
        self._beginning = beginning
        self._standings: dict[str, CountedBase] = {}
        self._following: dict[str, _Following] = {}
        self._view: MaterialisedView | None = None
        self._at: Any = None  # the current state of the view
        self._roster: Roster = Roster(())

    def make_view(self, roster: Callable[[], Roster]) -> MaterialisedView:
        """Create a view. `roster` is for views that show the members."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to the workers: neither the log that was read nor the view, which they create again."""
        return self.__dict__ | {"_following": {}, "_view": None, "_at": None}

    # --- before a batch --------------------------------------------------------------------------------------------

    def prepare(self, store: Store, *, until: int) -> None:
        """Read which events count, up to a position."""
        for kind in _communities(store):
            followed = self._following.get(kind)
            if followed is None or followed.position > until:
                base = self._beginning.base if self._beginning else None
                followed = self._following[kind] = _Following(store, f"ed25519:{kind.removeprefix(PREFIX)}", base)
            if followed.read(store, until) or kind not in self._standings:
                self._standings[kind] = CountedBase(followed.replica, self._settled(kind, followed.replica))

    def _settled(self, kind: str, replica: Replica) -> bytes | None:
        """The state after everything that floors cover; None without floors."""
        known = self._standings.get(kind)
        if known is not None and known.floor == replica.base.heads:
            return known.begin
        begin = self._beginning.states.get(self.view_name) if self._beginning else None
        if not replica.settled:
            return begin
        view = self._standing_at(canonical.decode(begin) if begin else None)
        for covered in replica.settled:
            for entry in covered.entries:
                if entry.type in self.view_types:
                    view.apply(wire_format.to_wire(entry, replica.community))
        self._at = None
        return pack({"": view.snapshot_state()})[""]

    # --- folding ---------------------------------------------------------------------------------------------------

    def initial(self) -> Any:
        """Empty: where a fold starts depends on the community."""
        return None

    def apply(self, state: Any, event: envelope.Event) -> Any:
        """The state after an event; unchanged if it does not count, or the view does not handle it."""
        standing = self._standings[event.stream.partition("/")[0]]
        if state is None:
            state = self._stand(standing, canonical.decode(standing.begin) if standing.begin else None)
        entry = _entry(event)
        if entry is None or entry.type not in self.view_types or not standing.counts(entry):
            return state
        if state is not self._at:
            self._stand(standing, state)
        assert self._view is not None
        self._view.apply(wire_format.to_wire(entry, standing.community))
        return self._state()

    def mark(self, event: envelope.Event) -> bytes | None:
        """The position in the merged order (of the inner event if it was set aside), then the counted base."""
        standing = self._standings.get(event.stream.partition("/")[0])
        if names.is_aside(event.stream) and event.type == ASIDE_EVENT and event.payload and standing is not None:
            entry = from_aside(FeedStreams(standing.community), event.data["event"])
            mark: bytes | None = entry.lamport.to_bytes(8, "big") + entry.id + entry.link
        else:
            mark = merged_order.mark_of(event)
        return mark if mark is None or standing is None else mark + standing.token

    def _stand(self, standing: CountedBase, state: Any) -> Any:
        """Give the view a state, which it owns from then on."""
        self._roster = standing.roster
        self._standing_at(state)
        return self._state()

    def _standing_at(self, state: Any) -> MaterialisedView:
        if self._view is None:
            self._view = self.make_view(lambda: self._roster)
        self._view.reset()
        if state is not None:
            self._view.restore_state(state)
        return self._view

    def _state(self) -> Any:
        """The state of the view. If the view exposes it, no copy is made for each event."""
        assert self._view is not None
        live = getattr(self._view, "live_state", None)
        self._at = self._view.snapshot_state() if live is None else live()
        return self._at


class _Following:
    """The log as far as it was read, in a node that never writes."""

    def __init__(self, store: Store, community: str, base: Base | None) -> None:
        self.replica = Replica(community, base=base)
        self._keeper = CommunityStorage(store, community)
        if base is not None:
            self._keeper.expect(base.heads)

    @property
    def position(self) -> int:
        """How far it was read."""
        return self._keeper.position

    def read(self, store: Store, until: int) -> bool:
        """Read more. Returns whether something was found."""
        self._keeper.store = store
        new: list[FeedEntry] = []
        forks: list[tuple[FeedEntry, FeedEntry]] = []
        for item in self._keeper.news(until):
            if isinstance(item, tuple):
                forks.append(item)
            elif item.link not in self.replica.by_link:
                new.append(item)
        if new or forks:
            self.replica.apply(new, forks)
        return bool(new or forks)


def _communities(store: Store) -> Iterator[str]:
    """The kinds of streams that are communities, each once."""
    after = PREFIX
    while page := store.streams(after=after, limit=STREAMS):
        for info in page:
            kind = info.stream.partition("/")[0]
            if not kind.startswith(PREFIX):
                return
            yield kind
            after = f"{kind}0"  # behind every stream of this kind: the slash sorts before the digit
            break


def _entry(event: envelope.Event) -> FeedEntry | None:
    """The event of a feed inside a stored event; None for other stored things."""
    if not names.is_aside(event.stream):
        return from_store(event, chain.GENESIS)
    if event.type == ASIDE_EVENT:
        kind = event.stream.partition("/")[0]
        return (
            from_aside(FeedStreams(f"ed25519:{kind.removeprefix(PREFIX)}"), event.data["event"])
            if event.payload
            else None
        )
    return None
