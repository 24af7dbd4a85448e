"""The configuration of a community, next to its log: DIR/community.json, and DIR/due.json with the next daily work."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from tallystick import errors
from tallystick.community.identity import KeyPair
from tallystick.community.sync import HttpClient, Peer, trusting

FILE, DUE = "community.json", "due.json"


class CommunityConfig(msgspec.Struct):
    """The configuration in a directory. `base` is the lamport of the snapshot it starts with.

    `tls_ca` is a file of authorities for https peers, in place of the public ones. A running node checks
    `emergency` every second.
    """

    community_id: str
    peers: list[dict[str, str]] = []
    allow_private: bool = False
    invite: str = ""
    proof: str = ""
    base: int | None = None
    tls_ca: str = ""
    emergency: bool = False

    @property
    def known_peers(self) -> list[Peer]:
        """The configured peers."""
        return [Peer(each["url"], each["key"]) for each in self.peers]

    def client(self, keys: KeyPair, peer: Peer) -> HttpClient:
        """A client for a peer."""
        invite = (self.invite, self.proof) if self.invite else None
        private, tls = self.allow_private, trusting(self.tls_ca) if self.tls_ca else None
        return HttpClient(peer, keys, self.community_id, allow_private=private, invite=invite, tls=tls)


def read(directory: Path) -> CommunityConfig:
    """Read the configuration; `CommunityMissing` if there is none, or it is damaged."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=CommunityConfig)
    except FileNotFoundError:
        raise errors.CommunityMissing(place=str(directory), reason=f"it has no {FILE}") from None
    except msgspec.MsgspecError as problem:
        raise errors.CommunityMissing(place=str(directory), reason=f"{FILE} is damaged: {problem}") from None


def save(directory: Path, place: CommunityConfig) -> None:
    """Replace the configuration atomically."""
    _replace(directory / FILE, msgspec.json.format(msgspec.json.encode(place)) + b"\n")


class NextDailyWork(msgspec.Struct, frozen=True):
    """When the daily work is due next, and the configured hour that this time was computed from."""

    at: datetime
    hour: int


def read_due(directory: Path) -> NextDailyWork | None:
    """The next daily work; None if none was planned, or the file cannot be decoded."""
    try:
        return msgspec.json.decode((directory / DUE).read_bytes(), type=NextDailyWork)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def save_due(directory: Path, due: NextDailyWork) -> None:
    """Store the time of the next daily work, so that a node that is off at that hour catches up."""
    _replace(directory / DUE, msgspec.json.encode(due) + b"\n")


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(path.name + ".writing")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
