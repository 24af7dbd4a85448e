"""What is written down of a community beside its log: DIR/community.json, and DIR/due.json with the next daily work."""

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
    """A community as its directory names it. `base` is the snapshot that the log begins with.

    `tls_ca` is a file of authorities that vouch for https peers, in place of the public ones. `emergency` is looked at
    by a running node every second.
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
        """The peers that were written down."""
        return [Peer(each["url"], each["key"]) for each in self.peers]

    def client(self, keys: KeyPair, peer: Peer) -> HttpClient:
        """A client for one of them."""
        invite = (self.invite, self.proof) if self.invite else None
        private, tls = self.allow_private, trusting(self.tls_ca) if self.tls_ca else None
        return HttpClient(peer, keys, self.community_id, allow_private=private, invite=invite, tls=tls)


def read(directory: Path) -> CommunityConfig:
    """What is written down."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=CommunityConfig)
    except FileNotFoundError:
        raise errors.CommunityMissing(place=str(directory), reason=f"it has no {FILE}") from None
    except msgspec.MsgspecError as problem:
        raise errors.CommunityMissing(place=str(directory), reason=f"{FILE} is damaged: {problem}") from None


def save(directory: Path, place: CommunityConfig) -> None:
    """Replace what is written down, whole or not at all."""
    _replace(directory / FILE, msgspec.json.format(msgspec.json.encode(place)) + b"\n")


class NextDailyWork(msgspec.Struct, frozen=True):
    """When the daily work is due next, and the hour for which that was worked out."""

    at: datetime
    hour: int


def read_due(directory: Path) -> NextDailyWork | None:
    """The next daily work; None if none was planned, or what was written is not to be read."""
    try:
        return msgspec.json.decode((directory / DUE).read_bytes(), type=NextDailyWork)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def save_due(directory: Path, due: NextDailyWork) -> None:
    """Write it down, so that a node that is off at its hour makes up for it."""
    _replace(directory / DUE, msgspec.json.encode(due) + b"\n")


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(path.name + ".writing")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
