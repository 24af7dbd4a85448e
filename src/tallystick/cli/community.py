"""`tally community`: found, join, write to and sync a community that is kept in a directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from tallystick.cli import community_directory, community_sync, options, output
from tallystick.cli.verify import show_problems

tls_ca = click.option(
    "--tls-ca",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="The certificate authorities for https peers, instead of the public ones. Saved in DIR.",
)
pem = click.Path(exists=True, dir_okay=False)
STATE_DIR = "TALLY_COMMUNITY_STATE_DIR"
LOG = "TALLY_LOG"


def _in_state_dir(_context: click.Context, _parameter: click.Parameter, value: Path) -> Path:
    """The directory. A relative path is relative to TALLY_COMMUNITY_STATE_DIR, if that is set."""
    return Path(os.environ.get(STATE_DIR, ""), value)


directory = click.argument(
    "directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), callback=_in_state_dir
)


@click.group("community", short_help="Found, join, write to and sync a community.")
def command() -> None:
    """Found, join, write to and sync a community: a log that many authors sign, and that nodes exchange by gossip.

    The id of a community is the NodeID of its founder (ed25519:…). Every directory is a node with its own key. With
    TALLY_LOG=info, each event that is written or received is logged on stderr as one line of JSON.
    """
    if os.environ.get(LOG):
        from tallystick.server import logs

        click.get_current_context().with_resource(logs.Logs(level=logs.level_from(os.environ)))


@command.command("init", short_help="Found a community.")
@directory
@click.option("--name", default="", help="The name of the community.")
@options.as_json
def init(directory: Path, name: str, as_json: bool) -> None:
    """Found a community in DIR: create a key, a log, and its first event."""
    from tallystick.community import KeyPair
    from tallystick.community.config import CommunityConfig

    keys = KeyPair.generate()
    community_directory.create(directory, CommunityConfig(keys.node), keys)
    with community_directory.opened(directory) as community:
        community.log.append_local("community.created", {"name": name}, keys)
        output.facts({"community": keys.node, "node": keys.node}, as_json=as_json)


@command.command("invite", short_help="Make an invitation.")
@directory
@click.option(
    "--role",
    type=click.Choice(["member", "admin"]),
    default="member",
    show_default=True,
    help="The role of the new member.",
)
@click.option(
    "--uses", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many nodes may join with it."
)
@click.option(
    "--address", metavar="URL", default="", help="The address of this node, for the first sync of the new node."
)
@click.option(
    "--snapshot",
    is_flag=True,
    help="Make a snapshot and declare a floor there, so that new nodes need not fetch older events.",
)
def invite(directory: Path, role: str, uses: int, address: str, snapshot: bool) -> None:
    """Print an invitation, one JSON document. Anyone who has it can join: keep it secret."""
    from tallystick.community import KeyPair, build_snapshot, declare_floor

    with community_directory.opened(directory) as community:
        key = KeyPair.generate()
        data: dict[str, Any] = {"node": key.node, "role": role, "uses": uses}
        event = community.log.append_local("community.member.invited", data, community.keys)
        digest = ""
        if snapshot:
            made = build_snapshot(community.log, community.engine, community.keys, community.log.head())
            declare_floor(community.log, made, community.keys)
            community.snapshots.write(made)
            digest = made.digest().hex()
        output.document(
            {
                "community_id": community.log.community,
                "creator": community.log.community,
                "invite": key.seed.hex(),
                "lamport": event.lamport,
                "peer": {"url": address, "key": community.keys.node} if address else None,
                "snapshot": digest,
            }
        )


@command.command("join", short_help="Join with an invitation.")
@directory
@click.argument("invitation", type=click.File("rb"), metavar="FILE|-")
@click.option(
    "--allow-private", is_flag=True, help="Also call peers at private addresses and over plain http. Saved in DIR."
)
@tls_ca
@options.as_json
def join(directory: Path, invitation: Any, allow_private: bool, tls_ca: str | None, as_json: bool) -> None:
    """Join a community in DIR with an invitation. If it names a snapshot, earlier history is not fetched."""
    found = community_sync.join(directory, invitation.read(), allow_private=allow_private, tls_ca=tls_ca or "")
    output.facts(found, as_json=as_json)


@command.command("append", short_help="Write an event.")
@directory
@click.argument("type_", metavar="TYPE")
@click.argument("payload", default="{}", metavar="[DATA|-]")
@click.option("--offline", is_flag=True, help="Do not call the peers, neither before nor after writing.")
@options.as_json
def append(directory: Path, type_: str, payload: str, offline: bool, as_json: bool) -> None:
    """Sign and store an event of one of the 19 types. DATA is a JSON object. Use - to read it from stdin.

    First, the peers are asked how much of this node's own feed they have, so that a restored backup does not use the
    same seq twice. Then the event is sent to them. Peers that do not answer are skipped.
    """
    from tallystick.event import canonical

    data = canonical.parse(sys.stdin.buffer.read() if payload == "-" else payload)
    canonical.check(data)
    with community_directory.opened(directory, offline=offline) as community:
        event = community_sync.append(community, type_, data, offline=offline)
        output.facts({"event_id": event.event_id, "lamport": event.lamport, "seq": event.seq}, as_json=as_json)


@command.command("sync", short_help="Exchange events with peers.")
@directory
@click.option(
    "--peer", "peers", multiple=True, metavar="KEY@URL", help="Add a peer to the list in DIR. May be repeated."
)
@click.option(
    "--allow-private", is_flag=True, help="Also call peers at private addresses and over plain http. Saved in DIR."
)
@click.option("--listen", metavar="HOST:PORT", help="Also answer peers, and run until interrupted.")
@click.option("--every", type=click.FloatRange(0.1), metavar="SECONDS", help="Seconds between rounds. Default: 300.")
@click.option(
    "--emergency",
    is_flag=True,
    help="Emergency mode while this command runs: a round every 30 seconds, only with local peers.",
)
@options.snapshot_hour
@click.option("--tls-cert", type=pem, metavar="FILE", help="Listen over https with this certificate or chain, in PEM.")
@click.option("--tls-key", type=pem, metavar="FILE", help="The private key of the certificate, in PEM.")
@tls_ca
@options.as_json
def sync(
    directory: Path,
    peers: tuple[str, ...],
    allow_private: bool,
    listen: str | None,
    every: float | None,
    emergency: bool,
    snapshot_hour: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    as_json: bool,
) -> int:
    """Do one round with every peer. With --listen, repeat it and answer peers. Exit status 1 if a peer failed."""
    community_sync.add_peers(directory, peers, allow_private=allow_private, tls_ca=tls_ca or "")
    if listen is not None:
        how = community_sync.Listening(listen, every, emergency, snapshot_hour, tls_cert, tls_key)
        community_sync.listen(directory, how)
        return 0
    results = community_sync.round_with_all(directory, local_only=emergency)
    for result in results:
        output.facts(result, as_json=as_json)
    if not results:
        output.note("there are no peers; add one with --peer KEY@URL")
    return int(any("failed" in result for result in results))


@command.command("emergency", short_help="Switch emergency mode on or off.")
@directory
@click.argument("state", metavar="on|off", type=click.Choice(["on", "off"]))
def emergency(directory: Path, state: str) -> None:
    """Switch emergency mode on or off: rounds every 30 seconds, only with local peers.

    The mode is saved in DIR. A node that runs there, with `sync --listen` or `tally serve`, follows within a second.
    """
    community_sync.set_emergency(directory, on=state == "on")


@command.command("status", short_help="Show the state of a community.")
@directory
@click.option("--members", is_flag=True, help="List the members and their roles instead.")
@click.option(
    "--verify", is_flag=True, help="First verify everything that is stored; exit status 1 if something is wrong."
)
@options.as_json
def status(directory: Path, members: bool, verify: bool, as_json: bool) -> int:
    """Show the state of a community: counted events, clocks, forks, and the fingerprint that equal nodes share."""
    if verify and (wrong := community_directory.problems(directory)):  # a damaged log may not even open
        return output.answer(False, {"problems": wrong}, lambda: show_problems(wrong), as_json=as_json)
    with community_directory.opened(directory) as community:
        if not members:
            checked: dict[str, Any] = {"problems": []} if verify else {}
            output.facts(community_directory.facts(community) | checked, as_json=as_json)
            return 0
        rows = community.engine.states()["members"]
        if as_json:
            output.document(rows)
        else:
            output.table(["node", "role"], [(node, facts["role"] or "(none)") for node, facts in rows.items()])
        return 0
