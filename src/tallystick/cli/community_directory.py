"""A community in a directory: community.json, key, log.db and snapshots/. Each command opens and closes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallystick.community import EventLog, Fanout, KeyPair, OwnHead, ReplayEngine, SnapshotStore
    from tallystick.community.config import CommunityConfig
    from tallystick.community.schedule import Schedule
    from tallystick.community.sync import HttpClient, Peer
    from tallystick.community.upkeep import NodeUpkeep
    from tallystick.store.events import Problem


class OpenCommunity:
    """An open community: its log, its key, its views."""

    def __init__(
        self, directory: Path, config: CommunityConfig, keys: KeyPair, log: EventLog, own_head: OwnHead
    ) -> None:
        from tallystick.community import ReplayEngine, SnapshotStore
        from tallystick.community.views import shipped_views

        self.directory = directory
        self.config = config
        self.keys = keys
        self.log = log
        self.own_head = own_head
        self.snapshots: SnapshotStore = SnapshotStore(directory / "snapshots", config.community_id)
        self.engine: ReplayEngine = ReplayEngine(log)
        self.engine.register_all(shipped_views(lambda: log.replica.roster))
        if config.base is not None:
            began = self.snapshots.read(config.base)
            self.engine.restart(began.states, floor=began.base.floor)

    @property
    def peers(self) -> list[Peer]:
        """The peers that are saved in the directory."""
        return self.config.known_peers

    def client(self, peer: Peer) -> HttpClient:
        """A client for a peer."""
        return self.config.client(self.keys, peer)

    def upkeep(self, schedule: Schedule | None = None) -> NodeUpkeep:
        """What the node does automatically."""
        from tallystick.cli import output
        from tallystick.community.upkeep import NodeUpkeep

        return NodeUpkeep(
            self.log, self.engine, self.snapshots, self.keys, self.directory, schedule=schedule, tell=output.note
        )

    def fanout(self) -> Fanout:
        """What sends new events to the peers."""
        from tallystick.community import Fanout

        return Fanout(self.log, lambda: self.peers, self.client)


def create(directory: Path, config: CommunityConfig, keys: KeyPair) -> None:
    """Create a community in a directory that has none."""
    from tallystick import errors
    from tallystick.community import config as configs

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (directory / configs.FILE).exists():
        raise errors.InvalidValue(what="directory", value=str(directory), must="without a community")
    keys.save(directory / "key")
    configs.save(directory, config)


@contextmanager
def opened(directory: Path, *, offline: bool = False) -> Iterator[OpenCommunity]:
    """The community in a directory, for one command. `offline`: do not ask the peers before the first event."""
    import tallystick
    from tallystick.community import EventLog, KeyPair, OwnHead, SnapshotStore
    from tallystick.community import config as configs

    config = configs.read(directory)
    keys = KeyPair.load(directory / "key")
    snapshots = SnapshotStore(directory / "snapshots", config.community_id)
    base = None if config.base is None else snapshots.read(config.base).base
    own_head = OwnHead(lambda: config.known_peers, lambda peer: config.client(keys, peer))
    ask = None if offline else own_head
    with tallystick.open(f"sqlite:{directory / 'log.db'}", profile="community") as store:
        log = EventLog(store, config.community_id, node=keys.node, base=base, ask=ask)
        yield OpenCommunity(directory, config, keys, log, own_head)


def problems(directory: Path) -> list[Problem]:
    """The problems that verification finds in the log of a directory, even if it cannot be opened as a community."""
    import tallystick
    from tallystick.community import config as configs

    configs.read(directory)
    with tallystick.open(f"sqlite:{directory / 'log.db'}", profile="community", readonly=True) as store:
        return store.verify().problems


def facts(community: OpenCommunity) -> dict[str, Any]:
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
        "peers": community.config.peers,
        "emergency": community.config.emergency,
        "snapshots": community.snapshots.list(),
    }
