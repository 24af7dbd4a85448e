"""Signed snapshots: the states of all views after a floor, and everything needed to continue from there.

A file is `<lamport>.bin`: the magic "TALLYSNP", the format 1, the SHA-256 of the rest, then MessagePack, deflated.
The file is written under another name and renamed, so it is never incomplete. A snapshot has no authority over events:
it is used if its signer is trusted and no event here contradicts it.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from tallystick import errors
from tallystick.community import floors, identity, wire_format
from tallystick.community.acts import Act
from tallystick.community.feeds import FeedHead
from tallystick.community.floors import Base
from tallystick.community.identity import KeyPair
from tallystick.community.log import EventLog
from tallystick.community.replay import ReplayEngine, pack
from tallystick.community.settings import settings
from tallystick.community.types import POLICY, SNAPSHOTS_KEPT, Event
from tallystick.event import canonical

MAGIC = b"TALLYSNP\x01"
SNAPSHOT_BYTES_MAX = 1 << 30


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The signed content: the states of all views as canonical JSON, and per author the last covered seq and link."""

    schema_version: int
    community_id: str
    lamport: int
    wall_clock: str
    states: dict[str, bytes]
    covers_events_up_to: int
    signer: str
    heads: dict[str, FeedHead]
    acts: tuple[Act, ...]
    nodes: tuple[str, ...]
    after: bytes = b""
    signature: str = ""

    def digest(self) -> bytes:
        """The hash that is signed, and that an invitation may name."""
        lines = [str(self.schema_version), self.community_id, str(self.lamport), self.wall_clock, self.signer]
        lines += [str(self.covers_events_up_to), self.base.floor.hex(), self.after.hex()]
        lines += [f"{name} {hashlib.sha256(text).hexdigest()}" for name, text in sorted(self.states.items())]
        return hashlib.sha256(identity.tagged(identity.SNAPSHOT_TAG, *lines)).digest()

    @property
    def state(self) -> dict[str, Any]:
        """The state of every view: the union of their snapshot_state() results."""
        return {name: canonical.decode(text) for name, text in self.states.items()}

    @property
    def base(self) -> Base:
        """The base of a node that starts with this snapshot."""
        floor = floors.digest(self.heads, self.acts, self.nodes)
        return Base(self.heads, self.acts, self.nodes, self.lamport, floor)

    def verify(self, community: str, trusted: builtins.set[str]) -> None:
        """Refuse a snapshot of another community, of another signer, or with changes."""
        if self.community_id != community or self.schema_version != 1:
            raise errors.SnapshotRejected(reason="it belongs to another community or format")
        if self.signer not in trusted:
            raise errors.SnapshotRejected(reason=f"its signer {self.signer} is not trusted")
        text = identity.tagged(identity.SNAPSHOT_TAG, self.digest().hex())
        if not identity.verify(identity.public_key(self.signer), text, identity.unhex(self.signature)):
            raise errors.SnapshotRejected(reason="its signature does not validate")


def build_snapshot(log: EventLog, engine: ReplayEngine, signing_kp: KeyPair, at_lamport: int | None = None) -> Snapshot:
    """Build a snapshot by replay up to `at_lamport`, or to as far behind the head as late events may still arrive."""
    lamport = max(log.head() - settings().snapshot_lag, 0) if at_lamport is None else at_lamport
    covered = floors.cover(log.replica, floors.heads_at(log.replica, lamport))
    if covered is None:
        raise errors.SnapshotRejected(reason="some of what it would cover is missing here")
    return _signed(log, covered.base, pack(engine.states_of(covered)), signing_kp, after=log.replica.base.floor)


def of_floor(log: EventLog, engine: ReplayEngine, signing_kp: KeyPair) -> Snapshot:
    """A snapshot of the floor that this node has reached, from its own fold of what the floor covers."""
    states = engine.floor_states()
    if states is None:
        raise errors.SnapshotRejected(reason="there is no floor, or a view that does not know what it covers")
    return _signed(log, log.replica.base, states, signing_kp, after=b"")


def _signed(log: EventLog, base: Base, states: dict[str, bytes], signing_kp: KeyPair, *, after: bytes) -> Snapshot:
    snapshot = Snapshot(
        schema_version=1,
        community_id=log.community,
        lamport=base.lamport,
        wall_clock=wire_format.wall_clock(log.clock()),
        states=states,
        covers_events_up_to=base.lamport,
        signer=signing_kp.node,
        heads=base.heads,
        acts=base.acts,
        nodes=base.nodes,
        after=after,
    )
    signature = signing_kp.sign(identity.tagged(identity.SNAPSHOT_TAG, snapshot.digest().hex()))
    return msgspec.structs.replace(snapshot, signature=signature.hex())


def declare_floor(log: EventLog, snapshot: Snapshot, founder_kp: KeyPair) -> Event:
    """Declare what a snapshot covers as the floor, so that newcomers can start there. Only for the founder."""
    if founder_kp.node != log.community:
        raise errors.SnapshotRejected(reason="only the founder declares a floor")
    return log.append_local(POLICY, floors.payload_of(snapshot.base, snapshot.after), founder_kp)


def restore_from_snapshot(snap: Snapshot, engine: ReplayEngine, log: EventLog, *, trusted: builtins.set[str]) -> None:
    """Verify a snapshot, restore the views from it, and apply every event that it does not cover.

    A log that starts at this snapshot, or has reached its floor, continues from it. A log that has the events
    themselves does so only if all covered events come first in the merged order; otherwise it folds everything.
    """
    snap.verify(log.community, trusted)
    replica = log.replica
    if replica.base.floor == snap.base.floor:
        engine.restart(snap.states, floor=snap.base.floor)
        return
    covered = floors.cover(replica, snap.heads)
    if covered is None or covered.base.floor != snap.base.floor:
        raise errors.SnapshotRejected(reason="this log lacks what it covers, or has other events")
    engine.resume(snap.states, [entry.key for entry in covered.entries])


class SnapshotStore:
    """Snapshots of one community in a directory."""

    def __init__(self, dir_path: Path, community_id: str) -> None:
        self._directory = Path(dir_path)
        self._community = community_id

    def write(self, snap: Snapshot, *, at_ns: int | None = None) -> None:
        """Write a snapshot atomically. Its lamport is its name; `at_ns` replaces this machine's time as its age."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{snap.lamport}.bin"
        beside = path.with_suffix(".writing")
        with beside.open("wb") as file:
            file.write(dump(snap))
            file.flush()
            if at_ns is not None:
                os.utime(beside, ns=(at_ns, at_ns))
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_directory(self._directory)

    def read(self, lamport: int) -> Snapshot:
        """Read the snapshot with this lamport. A damaged one is refused."""
        snap = load((self._directory / f"{lamport}.bin").read_bytes())
        if snap.community_id != self._community:
            raise errors.SnapshotRejected(reason="it belongs to another community")
        return snap

    def latest(self) -> Snapshot | None:
        """The intact snapshot that covers the most."""
        for lamport in reversed(self.list()):
            try:
                return self.read(lamport)
            except errors.SnapshotRejected:
                continue
        return None

    def list(self) -> builtins.list[int]:
        """The lamports of all snapshots, ascending."""
        if not self._directory.is_dir():
            return []
        return sorted(int(path.stem) for path in self._directory.glob("*.bin") if path.stem.isdecimal())

    def written_ns(self, lamport: int) -> int:
        """When the file of a snapshot was written, by the clock of this machine."""
        return (self._directory / f"{lamport}.bin").stat().st_mtime_ns

    def remove(self, lamport: int) -> None:
        """Remove one."""
        (self._directory / f"{lamport}.bin").unlink()

    def prune(self, keep_last_n: int = SNAPSHOTS_KEPT, *, keep: Collection[int] = ()) -> None:
        """Remove all but the newest and those with these lamports: a log may start at one, or its floor may be
        there.
        """
        if keep_last_n < 1:
            raise errors.InvalidValue(what="keep_last_n", value=keep_last_n, must="at least 1")
        for lamport in set(self.list()[:-keep_last_n]) - set(keep):
            self.remove(lamport)


def dump(snap: Snapshot) -> bytes:
    """The bytes of a snapshot."""
    body = zlib.compress(msgspec.msgpack.encode(snap), 6)
    return MAGIC + hashlib.sha256(body).digest() + body


def load(data: bytes) -> Snapshot:
    """Decode a snapshot. The bytes may be hostile."""
    body = data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or hashlib.sha256(body).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
        raise errors.SnapshotRejected(reason="its bytes are damaged, or are not a snapshot")
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(body, SNAPSHOT_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise errors.SnapshotRejected(reason=f"it unpacks to more than {SNAPSHOT_BYTES_MAX} bytes")
        return msgspec.msgpack.decode(text, type=Snapshot)
    except (zlib.error, msgspec.MsgspecError) as problem:
        raise errors.SnapshotRejected(reason=f"its form is wrong: {str(problem)[:100]}") from None


def _sync_directory(path: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
