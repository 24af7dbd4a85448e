"""A community on disk: DIR/community.json, DIR/key, DIR/log.db, DIR/snapshots. Opened and closed by each command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tallystick.community import EventLog, Fanout, KeyPair, OwnHead, ReplayEngine, SnapshotStore
    from tallystick.community.sync import HttpClient, Peer
    from tallystick.store.events import Problem

FILE = "community.json"


class Place(msgspec.Struct):
    """What is written down of a community beside its log. `base` is the snapshot that the log begins with.

    `tls_ca` is a file of authorities that vouch for https peers, in place of the public ones.
    """

    community_id: str
    peers: list[dict[str, str]] = []
    allow_private: bool = False
    invite: str = ""
    proof: str = ""
    base: int | None = None
    tls_ca: str = ""


class Opened:
    """An open community: its log, its key, its views."""

    def __init__(self, directory: Path, place: Place, keys: KeyPair, log: EventLog, own_head: OwnHead) -> None:
        from tallystick.community import ChatView, MarketplaceView, MembersView, ReplayEngine, SnapshotStore

        self.directory = directory
        self.place = place
        self.keys = keys
        self.log = log
        self.own_head = own_head
        self.snapshots: SnapshotStore = SnapshotStore(directory / "snapshots", place.community_id)
        self.engine: ReplayEngine = ReplayEngine(log)
        members = MembersView(lambda: log.replica.roster)
        self.engine.register_all(
            {
                "chat": (ChatView(), ChatView.types),
                "marketplace": (MarketplaceView(), MarketplaceView.types),
                "members": (members, MembersView.types),
            }
        )
        if place.base is not None:
            began = self.snapshots.read(place.base)
            self.engine.restart(began.states, floor=began.base.floor)

    @property
    def peers(self) -> list[Peer]:
        """The peers that were written down."""
        return peers_of(self.place)

    def client(self, peer: Peer) -> HttpClient:
        """A client for one of them."""
        return client_for(self.place, self.keys, peer)

    def fanout(self) -> Fanout:
        """What hands new events on to the peers."""
        from tallystick.community import Fanout

        return Fanout(self.log, lambda: self.peers, self.client)


def peers_of(place: Place) -> list[Peer]:
    """The peers of a community."""
    from tallystick.community import Peer

    return [Peer(each["url"], each["key"]) for each in place.peers]


def client_for(place: Place, keys: KeyPair, peer: Peer) -> HttpClient:
    """A client for a peer of a community."""
    from tallystick.community import HttpClient
    from tallystick.community.sync import trusting

    invite = (place.invite, place.proof) if place.invite else None
    private, tls = place.allow_private, trusting(place.tls_ca) if place.tls_ca else None
    return HttpClient(peer, keys, place.community_id, allow_private=private, invite=invite, tls=tls)


def create(directory: Path, place: Place, keys: KeyPair) -> None:
    """Write down a new community; the directory must not have one."""
    from tallystick import errors

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (directory / FILE).exists():
        raise errors.InvalidValue(what="directory", value=str(directory), must="without a community")
    keys.save(directory / "key")
    save(directory, place)


def save(directory: Path, place: Place) -> None:
    """Replace what is written down, whole or not at all."""
    beside = directory / (FILE + ".writing")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(place)) + b"\n")
    os.replace(beside, directory / FILE)


def read(directory: Path) -> Place:
    """What is written down."""
    from tallystick import errors

    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Place)
    except FileNotFoundError:
        raise errors.CommunityMissing(place=str(directory), reason=f"it has no {FILE}") from None
    except msgspec.MsgspecError as problem:
        raise errors.CommunityMissing(place=str(directory), reason=f"{FILE} is damaged: {problem}") from None


@contextmanager
def opened(directory: Path, *, offline: bool = False) -> Iterator[Opened]:
    """The community in a directory, for one command. `offline`: do not ask the peers before the first event."""
    import tallystick
    from tallystick.community import EventLog, KeyPair, OwnHead, SnapshotStore

    place = read(directory)
    keys = KeyPair.load(directory / "key")
    snapshots = SnapshotStore(directory / "snapshots", place.community_id)
    base = None if place.base is None else snapshots.read(place.base).base
    own_head = OwnHead(lambda: peers_of(place), lambda peer: client_for(place, keys, peer))
    ask = None if offline else own_head
    with tallystick.open(f"sqlite:{directory / 'log.db'}", profile="community") as store:
        log = EventLog(store, place.community_id, node=keys.node, base=base, ask=ask)
        yield Opened(directory, place, keys, log, own_head)


def problems(directory: Path) -> list[Problem]:
    """What verification finds wrong with the log in a directory, which need not be fit to be opened as one."""
    import tallystick
    from tallystick.community import checking

    read(directory)
    with tallystick.open(f"sqlite:{directory / 'log.db'}", profile="community", readonly=True) as store:
        return checking.verify(store).problems


def facts(community: Opened) -> dict[str, Any]:
    """What `tally community status` shows."""
    replica = community.log.replica
    heads = community.log.heads()
    return {
        "community": replica.community,
        "node": community.keys.node,
        "members": sum(rank > 0 for rank in replica.roster.now().values()),
        "events": len(replica.counted),
        "head": replica.head,
        "clock": replica.clock.current,
        "held": len(replica.held),
        "forks": heads.forks,
        "floor": heads.floor,
        "disputed floors": [link.hex() for link in replica.disputed],
        "fingerprint": replica.fingerprint(),
        "peers": community.place.peers,
        "snapshots": community.snapshots.list(),
    }
