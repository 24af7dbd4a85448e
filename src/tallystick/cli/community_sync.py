"""The network half of `tally community`: joining, rounds with peers, listening."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from tallystick.cli import community_place, output
from tallystick.cli.community_place import Opened

if TYPE_CHECKING:
    from tallystick.community import Peer
    from tallystick.community.schedule import Schedule, Ticker

Result = TypeVar("Result")


class Invitation(msgspec.Struct, frozen=True):
    """What `tally community invite` prints."""

    community_id: str
    creator: str
    invite: str
    lamport: int
    peer: dict[str, str] | None = None
    snapshot: str = ""


def join(directory: Path, text: bytes, *, allow_private: bool) -> dict[str, Any]:
    """Make a directory for a newcomer, and its first event."""
    from tallystick import errors
    from tallystick.community import KeyPair
    from tallystick.community.acts import proof_text

    try:
        invitation = msgspec.json.decode(text, type=Invitation)
        key = KeyPair(bytes.fromhex(invitation.invite))
    except (msgspec.MsgspecError, ValueError) as problem:
        raise errors.InvalidValue(what="invitation", value="…", must=f"what `invite` printed ({problem})") from None
    keys = KeyPair.generate()
    place = community_place.Place(invitation.community_id, allow_private=allow_private, invite=key.node)
    place.proof = key.sign(proof_text(invitation.community_id, keys.node)).hex()
    place.peers = [invitation.peer] if invitation.peer else []
    community_place.create(directory, place, keys)
    if invitation.snapshot and invitation.peer:
        place.base = _adopt(directory, invitation)
        community_place.save(directory, place)
    with community_place.opened(directory) as community:
        if place.base is not None:
            _rounds(community, community.peers)  # the floor's own event must be here before anything is written
        community.log.replica.clock.observe(invitation.lamport)
        data = {"invite": key.node, "proof": place.proof}
        event = community.log.append_local("community.member.joined", data, keys)
        return {"community": invitation.community_id, "node": keys.node, "lamport": event.lamport}


def _adopt(directory: Path, invitation: Invitation) -> int:
    """Fetch the snapshot that the invitation names; what is not exactly that is refused."""
    from tallystick import errors
    from tallystick.community import snapshot as snapshots

    with community_place.opened(directory) as community:

        async def fetch() -> bytes:
            async with community.client(community.peers[0]) as client:
                return await client.snapshot()

        found = snapshots.load(_run(fetch()))
        found.verify(invitation.community_id, {invitation.creator, community.peers[0].key})
        if found.digest().hex() != invitation.snapshot:
            raise errors.SnapshotRejected(reason="it is not the one that the invitation names")
        community.snapshots.write(found)
        return found.lamport


def add_peers(directory: Path, peers: tuple[str, ...], *, allow_private: bool) -> None:
    """Write down new peers, each as KEY@URL."""
    from tallystick.community import addresses, identity

    place = community_place.read(directory)
    private = place.allow_private or allow_private
    for text in peers:
        key, _, url = text.partition("@")
        if not identity.is_node_id(key) or not url:
            raise click.BadParameter(f"{text!r} is not KEY@URL.", param_hint="--peer")
        addresses.check(url, allow_private=private)
        place.peers = [each for each in place.peers if each["key"] != key] + [{"url": url, "key": key}]
    if peers or private != place.allow_private:
        place.allow_private = private
        community_place.save(directory, place)


def round_with_all(directory: Path, *, local_only: bool = False) -> list[dict[str, Any]]:
    """One round with every peer, and what came of each."""
    from tallystick.community.sync import local_peers

    with community_place.opened(directory) as community:
        peers = local_peers(community.peers) if local_only else community.peers
        return _rounds(community, peers)


def _rounds(community: Opened, peers: list[Peer]) -> list[dict[str, Any]]:
    return [_run(_round(community, peer)) for peer in peers]


async def _round(community: Opened, peer: Peer) -> dict[str, Any]:
    from tallystick import errors
    from tallystick.community import SyncClient

    try:
        async with community.client(peer) as client:
            result = await SyncClient(community.log).sync_with(client)
    except (errors.SyncFailed, errors.PeerRefused, errors.BadMessage) as problem:
        return {"peer": peer.url, "failed": problem.message}
    return {"peer": peer.url, **msgspec.to_builtins(result)}


def ask_for_own_head(community: Opened) -> None:
    """Get back from the peers what they have of this node's own feed and it has not, after a restored backup."""
    for result in _rounds(community, community.peers):
        if "failed" in result:
            output.note(f"{result['peer']} was not asked for this node's own head: {result['failed']}")


def listen(directory: Path, place: str, *, every: float | None, emergency: bool) -> None:
    """Answer peers and call them, until interrupted."""
    import uvicorn

    from tallystick.community import SyncServer
    from tallystick.community.schedule import INTERVAL_S, Schedule, beside

    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"{place!r} is not HOST:PORT.", param_hint="--listen")
    with community_place.opened(directory) as community:
        listed = frozenset(peer.key for peer in community.peers)
        server = SyncServer(community.log, community.keys, listed=listed, snapshots=community.snapshots)
        schedule = Schedule(interval_s=every or INTERVAL_S, emergency=emergency)
        config = uvicorn.Config(
            server.app(), host=host, port=int(port), log_level="warning", limit_concurrency=50, access_log=False
        )
        output.note(f"listening on {place} as {community.keys.node}")
        ticker = _ticker(community, schedule)
        _run(beside(uvicorn.Server(config).serve(), ticker, now=lambda: datetime.now().astimezone()))


def _ticker(community: Opened, schedule: Schedule) -> Ticker:
    """Rounds and snapshots of an open community, in the rhythm of a schedule."""
    from tallystick.community import build_snapshot
    from tallystick.community.schedule import Ticker
    from tallystick.community.sync import local_peers

    async def rounds(local_only: bool) -> None:
        for peer in local_peers(community.peers) if local_only else community.peers:
            await _round(community, peer)

    async def snapshot() -> None:
        with community.log.lock:
            community.snapshots.write(build_snapshot(community.log, community.engine, community.keys))
        retain(community)

    return Ticker(schedule, round=rounds, snapshot=snapshot)


def retain(community: Opened, *, days: float | None = None) -> None:
    """Let go what a floor has covered for 30 days, and all but the newest snapshots."""
    from tallystick.community import EVENT_LOG_RETENTION_DAYS, retention

    log, peers = community.log, [peer.key for peer in community.peers]
    window = EVENT_LOG_RETENTION_DAYS if days is None else days
    due = retention.due(log, community.engine, community.snapshots, community.keys, days=window, peers=peers)
    if due is not None:
        place = community_place.read(community.directory)
        place.base = community.place.base = due.snapshot.lamport
        community_place.save(community.directory, place)  # first: whoever opens the log begins there from now on
        for stream in retention.prune(log, due):
            output.note(f"{stream.stream}: {stream.why_not or f'{stream.count} events pruned'}")
    needed = {community.place.base, log.replica.base.lamport} - {None}
    community.snapshots.prune(keep=needed)  # type: ignore[arg-type]


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    from tallystick.community.schedule import run

    return run(work)
