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
    import socket

    from tallystick.community import Event, Peer
    from tallystick.community.schedule import Schedule, Ticker

Result = TypeVar("Result")
FLUSH_SECONDS = 11.0


class Invitation(msgspec.Struct, frozen=True):
    """What `tally community invite` prints."""

    community_id: str
    creator: str
    invite: str
    lamport: int
    peer: dict[str, str] | None = None
    snapshot: str = ""


def join(directory: Path, text: bytes, *, allow_private: bool, tls_ca: str = "") -> dict[str, Any]:
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
    place = community_place.Place(invitation.community_id, allow_private=allow_private, invite=key.node, tls_ca=tls_ca)
    place.proof = key.sign(proof_text(invitation.community_id, keys.node)).hex()
    place.peers = [invitation.peer] if invitation.peer else []
    community_place.create(directory, place, keys)
    if invitation.snapshot and invitation.peer:
        place.base = _adopt(directory, invitation)
        community_place.save(directory, place)
    with community_place.opened(directory, offline=True) as community:  # nobody has anything of a key this new
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


def add_peers(directory: Path, peers: tuple[str, ...], *, allow_private: bool, tls_ca: str = "") -> None:
    """Write down new peers, each as KEY@URL, and who vouches for them."""
    from tallystick.community import addresses, identity

    place = community_place.read(directory)
    private = place.allow_private or allow_private
    for text in peers:
        key, _, url = text.partition("@")
        if not identity.is_node_id(key) or not url:
            raise click.BadParameter(f"{text!r} is not KEY@URL.", param_hint="--peer")
        addresses.check(url, allow_private=private)
        place.peers = [each for each in place.peers if each["key"] != key] + [{"url": url, "key": key}]
    if peers or tls_ca or private != place.allow_private:
        place.allow_private, place.tls_ca = private, tls_ca or place.tls_ca
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


def append(community: Opened, type_: str, data: dict[str, Any], *, offline: bool) -> Event:
    """Write an event, and hand it on to the peers as far as they answer now."""
    if offline:
        return community.log.append_local(type_, data, community.keys)
    with community.fanout() as fanout:
        event = community.log.append_local(type_, data, community.keys)
        fanout.flush(FLUSH_SECONDS)
    for peer, reason in community.own_head.failures.items():
        output.note(f"{peer} was not asked for this node's own head: {reason}")
    return event


class Listening(msgspec.Struct, frozen=True):
    """How a node listens: where, how often it calls others, and with which certificate, if over https."""

    place: str
    every: float | None = None
    emergency: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None

    def bind(self) -> socket.socket:
        """The socket; port 0 takes a free one."""
        import socket

        host, _, port = self.place.rpartition(":")
        if not host or not port.isdecimal():
            raise click.BadParameter(f"{self.place!r} is not HOST:PORT.", param_hint="--listen")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host.strip("[]"), int(port)), family=family)
        except OSError as problem:
            raise click.BadParameter(f"{self.place} cannot be had ({problem}).", param_hint="--listen") from None

    def require_pair(self) -> None:
        """Refuse a certificate and key that do not belong together, before anything is served."""
        import ssl

        if self.tls_cert is None and self.tls_key is None:
            return
        if self.tls_cert is None or self.tls_key is None:
            raise click.BadParameter("a certificate and its key go together.", param_hint="--tls-cert, --tls-key")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as problem:
            raise click.BadParameter(f"they are no pair ({problem}).", param_hint="--tls-cert, --tls-key") from None


def listen(directory: Path, how: Listening) -> None:
    """Answer peers and call them, until interrupted."""
    import uvicorn

    from tallystick.community import SyncServer
    from tallystick.community.schedule import INTERVAL_S, Schedule, beside

    how.require_pair()
    with community_place.opened(directory) as community, how.bind() as bound:
        listed = frozenset(peer.key for peer in community.peers)
        fanout = community.fanout()
        server = SyncServer(community.log, community.keys, listed=listed, snapshots=community.snapshots, fanout=fanout)
        config = uvicorn.Config(
            server.app(),
            log_level="warning",
            limit_concurrency=50,
            access_log=False,
            ssl_certfile=how.tls_cert,
            ssl_keyfile=how.tls_key,
        )
        host, port = bound.getsockname()[:2]
        output.note(f"listening on {host}:{port} as {community.keys.node}")
        ticker = _ticker(community, Schedule(interval_s=how.every or INTERVAL_S, emergency=how.emergency))
        serving = uvicorn.Server(config).serve(sockets=[bound])
        _run(beside(serving, ticker, now=lambda: datetime.now().astimezone(), look=community.log.refresh))


def _ticker(community: Opened, schedule: Schedule) -> Ticker:
    """Rounds and snapshots of an open community, in the rhythm of a schedule."""
    from tallystick.community import build_snapshot, endorse_floors
    from tallystick.community.schedule import Ticker
    from tallystick.community.sync import local_peers

    async def rounds(local_only: bool) -> None:
        for peer in local_peers(community.peers) if local_only else community.peers:
            await _round(community, peer)

    async def snapshot() -> None:
        with community.log.lock:
            community.snapshots.write(build_snapshot(community.log, community.engine, community.keys))
        if community.keys.node == community.log.community:
            endorse_floors(community.log, community.keys)
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
