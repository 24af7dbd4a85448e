"""The network part of `tally community`: joining, rounds with peers, listening."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from tallystick.cli import community_directory, output
from tallystick.cli.community_directory import OpenCommunity

if TYPE_CHECKING:
    import socket

    from tallystick.community import Event
    from tallystick.community.schedule import Schedule

Result = TypeVar("Result")
FLUSH_SECONDS = 11.0
AT_A_TIME = 16


class Invitation(msgspec.Struct, frozen=True):
    """What `tally community invite` prints."""

    community_id: str
    creator: str
    invite: str
    lamport: int
    peer: dict[str, str] | None = None
    snapshot: str = ""


def join(directory: Path, text: bytes, *, allow_private: bool, tls_ca: str = "") -> dict[str, Any]:
    """Create the directory of a new node, and its first event."""
    from tallystick import errors
    from tallystick.community import KeyPair
    from tallystick.community import config as configs
    from tallystick.community.acts import proof_text

    try:
        invitation = msgspec.json.decode(text, type=Invitation)
        key = KeyPair(bytes.fromhex(invitation.invite))
    except (msgspec.MsgspecError, ValueError) as problem:
        raise errors.InvalidValue(what="invitation", value="…", must=f"what `invite` printed ({problem})") from None
    keys = KeyPair.generate()
    config = configs.CommunityConfig(
        invitation.community_id, allow_private=allow_private, invite=key.node, tls_ca=tls_ca
    )
    config.proof = key.sign(proof_text(invitation.community_id, keys.node)).hex()
    config.peers = [invitation.peer] if invitation.peer else []
    community_directory.create(directory, config, keys)
    if invitation.snapshot and invitation.peer:
        config.base = _adopt(directory, invitation)
        configs.save(directory, config)
    with community_directory.opened(directory, offline=True) as community:  # no peer knows a key this new
        if config.base is not None:
            _rounds(community)  # the event that declares the floor must be here before anything is written
        community.log.replica.clock.observe(invitation.lamport)
        data = {"invite": key.node, "proof": config.proof}
        event = community.log.append_local("community.member.joined", data, keys)
        return {"community": invitation.community_id, "node": keys.node, "lamport": event.lamport}


def _adopt(directory: Path, invitation: Invitation) -> int:
    """Fetch the snapshot that the invitation names, and refuse any other."""
    from tallystick import errors
    from tallystick.community import snapshot as snapshots

    with community_directory.opened(directory) as community:

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
    """Save new peers, each as KEY@URL, and the certificate authorities for them."""
    from tallystick.community import addresses, identity
    from tallystick.community import config as configs

    config = configs.read(directory)
    private = config.allow_private or allow_private
    for text in peers:
        key, _, url = text.partition("@")
        if not identity.is_node_id(key) or not url:
            raise click.BadParameter(f"{text!r} is not KEY@URL.", param_hint="--peer")
        addresses.check(url, allow_private=private)
        config.peers = [each for each in config.peers if each["key"] != key] + [{"url": url, "key": key}]
    if peers or tls_ca or private != config.allow_private:
        config.allow_private, config.tls_ca = private, tls_ca or config.tls_ca
        configs.save(directory, config)


def round_with_all(directory: Path, *, local_only: bool = False) -> list[dict[str, Any]]:
    """Do one round with every peer, and return the results."""
    with community_directory.opened(directory) as community:
        return _rounds(community, local_only=local_only)


def _rounds(community: OpenCommunity, *, local_only: bool = False) -> list[dict[str, Any]]:
    from tallystick.community.rounds import Rounds

    async def all_of_them() -> dict[str, dict[str, Any]]:
        rounds = Rounds(community.log, community.client)
        for at in range(0, len(community.peers), AT_A_TIME):
            await rounds.begin(community.peers[at : at + AT_A_TIME], local_only=local_only)
            await rounds.finish()
        return rounds.results

    results = _run(all_of_them())
    return [_result(peer.url, results[peer.key]) for peer in community.peers if peer.key in results]


def _result(url: str, result: dict[str, Any]) -> dict[str, Any]:
    return {"peer": url, "failed": result["failed"]} if "failed" in result else {"peer": url, **result["result"]}


def append(community: OpenCommunity, type_: str, data: dict[str, Any], *, offline: bool) -> Event:
    """Write an event, and send it to the peers that answer now."""
    if offline:
        return community.log.append_local(type_, data, community.keys)
    with community.fanout() as fanout:
        event = community.log.append_local(type_, data, community.keys)
        fanout.flush(FLUSH_SECONDS)
    for peer, reason in community.own_head.failures.items():
        output.note(f"{peer} could not be asked for this node's own head: {reason}")
    return event


class Listening(msgspec.Struct, frozen=True):
    """How a node listens: where, how often it calls its peers, and with which certificate over https."""

    address: str
    every: float | None = None
    emergency: bool = False
    snapshot_hour: int | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def bind(self) -> socket.socket:
        """The socket. Port 0 chooses a free one."""
        import socket

        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal():
            raise click.BadParameter(f"{self.address!r} is not HOST:PORT.", param_hint="--listen")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host.strip("[]"), int(port)), family=family)
        except OSError as problem:
            raise click.BadParameter(f"cannot listen on {self.address} ({problem}).", param_hint="--listen") from None

    def schedule(self) -> Schedule:
        """When it does rounds and snapshots."""
        from tallystick.community.settings import settings

        return settings().schedule(hour=self.snapshot_hour, every=self.every, emergency=self.emergency)

    def require_pair(self) -> None:
        """Refuse a certificate and a key that do not match, before anything is served."""
        import ssl

        if self.tls_cert is None and self.tls_key is None:
            return
        if self.tls_cert is None or self.tls_key is None:
            raise click.BadParameter("give both the certificate and its key.", param_hint="--tls-cert, --tls-key")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as problem:
            raise click.BadParameter(
                f"the certificate and the key do not match ({problem}).", param_hint="--tls-cert, --tls-key"
            ) from None


def listen(directory: Path, how: Listening) -> None:
    """Answer peers and call them, until interrupted."""
    import uvicorn

    from tallystick.community import SyncServer
    from tallystick.community.schedule import beside
    from tallystick.server import idle_timeout, logs

    how.require_pair()
    logged = logs.Logs(level=logs.level_from(os.environ))
    with logged, community_directory.opened(directory) as community, how.bind() as bound:
        listed = frozenset(peer.key for peer in community.peers)
        fanout = community.fanout()
        server = SyncServer(community.log, community.keys, listed=listed, snapshots=community.snapshots, fanout=fanout)
        config = uvicorn.Config(
            server.app(),
            log_level="warning",
            http=idle_timeout.IdleTimeoutConnection,
            ws="none",
            limit_concurrency=idle_timeout.CONNECTIONS_MAX,
            access_log=False,
            ssl_certfile=how.tls_cert,
            ssl_keyfile=how.tls_key,
        )
        host, port = bound.getsockname()[:2]
        output.note(f"listening on {host}:{port} as {community.keys.node}")
        upkeep = community.upkeep(how.schedule())
        serving = uvicorn.Server(config).serve(sockets=[bound])
        _run(beside(serving, upkeep, now=lambda: datetime.now().astimezone(), look=community.log.refresh))


def set_emergency(directory: Path, *, on: bool) -> None:
    """Save whether it is an emergency. A node that runs on this directory notices within a second."""
    from tallystick.community import config as configs

    config = configs.read(directory)
    config.emergency = on
    configs.save(directory, config)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    from tallystick.community.schedule import run

    return run(work)
