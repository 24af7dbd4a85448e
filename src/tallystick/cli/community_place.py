"""A community on disk: DIR/community.json, DIR/key, DIR/log.db, DIR/snapshots. Opened and closed by each command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tallystick.community import EventLog, KeyPair, ReplayEngine, SnapshotStore
    from tallystick.community.sync import HttpClient, Peer

FILE = "community.json"


class Place(msgspec.Struct):
    """What is written down of a community beside its log. `base` is the snapshot that the log begins with."""

    community_id: str
    peers: list[dict[str, str]] = []
    allow_private: bool = False
    invite: str = ""
    proof: str = ""
    base: int | None = None


class Opened:
    """An open community: its log, its key, its views."""

    def __init__(self, directory: Path, place: Place, keys: KeyPair, log: EventLog) -> None:
        from tallystick.community import ChatView, MarketplaceView, MembersView, ReplayEngine, SnapshotStore

        self.directory = directory
        self.place = place
        self.keys = keys
        self.log = log
        self.snapshots: SnapshotStore = SnapshotStore(directory / "snapshots", place.community_id)
        self.engine: ReplayEngine = ReplayEngine(log)
        self.engine.register("chat", ChatView(), ChatView.types)
        self.engine.register("marketplace", MarketplaceView(), MarketplaceView.types)
        self.engine.register("members", MembersView(lambda: log.replica.roster), MembersView.types)
        if place.base is not None:
            began = self.snapshots.read(place.base)
            self.engine.restart(began.states, floor=began.base.floor)

    @property
    def peers(self) -> list[Peer]:
        """The peers that were written down."""
        from tallystick.community import Peer

        return [Peer(each["url"], each["key"]) for each in self.place.peers]

    def client(self, peer: Peer) -> HttpClient:
        """A client for one of them."""
        from tallystick.community import HttpClient

        invite = (self.place.invite, self.place.proof) if self.place.invite else None
        private = self.place.allow_private
        return HttpClient(peer, self.keys, self.place.community_id, allow_private=private, invite=invite)


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
def opened(directory: Path) -> Iterator[Opened]:
    """The community in a directory, for one command."""
    import tallystick
    from tallystick.community import EventLog, KeyPair, SnapshotStore

    place = read(directory)
    keys = KeyPair.load(directory / "key")
    snapshots = SnapshotStore(directory / "snapshots", place.community_id)
    base = None if place.base is None else snapshots.read(place.base).base
    with tallystick.open(f"sqlite:{directory / 'log.db'}", profile="community") as store:
        yield Opened(directory, place, keys, EventLog(store, place.community_id, node=keys.node, base=base))


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
