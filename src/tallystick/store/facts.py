"""Facts about streams: what was done to each stream, as control events in a stream of its own.

The facts about `run/7` are in `tally.stream/run:7`, those about the whole store in `tally.store/…`. A fact has the org
of the stream that it is about, so a tenant can read its own audit trail. Facts are never pruned or erased.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

from tallystick.event import names
from tallystick.event.model import Event
from tallystick.store.snapshots import DIFF, FULL, Snapshot

KIND = "tally.stream"
STORE_SNAPSHOTS = "tally.store/snapshots"

NAME_CHARACTERS_MAX = 191

SNAPSHOTTED = "tally.snapshotted"
SNAPSHOT_DROPPED = "tally.snapshot.dropped"
SNAPSHOT_PROTECTED = "tally.snapshot.protected"
SNAPSHOT_SET = "tally.snapshot.set"
SEALED = "tally.sealed"
PRUNED = "tally.pruned"
ERASED = "tally.erased"
FORKED = "tally.forked"

F = TypeVar("F", bound="Fact")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all facts: the stream that it is about (empty: the store). Hashes are lower-case hex."""

    stream: str

    @property
    def payload(self) -> dict[str, Any]:
        """The fact as the payload of its event."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Snapshotted(Fact, frozen=True, kw_only=True):
    """A snapshot was made; its id is that of this event. `seq` is 0 for a snapshot of the store.

    `last_event_id` is the id of the last event that it covers; it is empty in facts of earlier versions.

    `latest` is the highest time of the events it covers, so that a fold up to a time knows whether it may start here.
    """

    seq: int
    position: int
    link: str
    reducer: str
    reducer_version: int
    upcasters: str
    state_hash: str
    body_hash: str
    body_bytes: int
    kind: str
    latest: int
    base: str | None = None
    last_event_id: str = ""
    protected: bool = False


class SnapshotsDropped(Fact, frozen=True, kw_only=True, omit_defaults=True):
    """Snapshots were dropped, and why.

    `standing`, if it is given, lists all snapshots that exist at this point of the stream, and whether each is
    protected. A reader that looks for snapshots need not read further back.
    """

    snapshots: list[str]
    reason: str
    standing: dict[str, bool] | None = None


class SnapshotProtected(Fact, frozen=True, kw_only=True):
    """An operator protected a snapshot from retention, or lifted that."""

    snapshot: str
    protected: bool


class SnapshotSet(Fact, frozen=True, kw_only=True):
    """Every registered reducer was snapshotted at one position of the whole store. `before` is the previous part."""

    position: int
    snapshots: list[str]
    log_bytes: int = 0
    before: str | None = None


class Sealed(Fact, frozen=True, kw_only=True):
    """The fingerprint of a stream at a seq: sha256 over its link and the hash of its state."""

    seq: int
    link: str
    reducer: str
    reducer_version: int
    upcasters: str
    state_hash: str
    fingerprint: str


class Pruned(Fact, frozen=True, kw_only=True, omit_defaults=True):
    """The events up to `through` are gone. `lost` names what can no longer be rebuilt from the log alone.

    `archive` describes the archive that the prune relied on: what it held then, it must always hold. `mixed`: some of
    the pruned events did not name the stream's org.
    """

    through: int
    link: str
    first_position: int
    last_position: int
    count: int
    org: str | None
    snapshots: list[str]
    lost: list[str]
    accepted: bool
    archive: dict[str, Any] | None = None
    mixed: bool = False


class Erased(Fact, frozen=True, kw_only=True):
    """The payload of one event is gone."""

    seq: int
    position: int
    event: str
    checksum: str
    reason: str


class Forked(Fact, frozen=True, kw_only=True):
    """Another stream refers to the events of this one up to `seq`, which must stay as long as that stream exists."""

    seq: int
    link: str
    child: str


def stream_about(stream: str) -> str:
    """The name of the stream that holds the facts about a stream."""
    name = stream.replace("/", ":", 1)
    if len(name) > NAME_CHARACTERS_MAX:  # no kind holds a `=`, so this is the name for no other stream
        name = "sha256=" + hashlib.sha256(stream.encode()).hexdigest()
    return f"{KIND}/{name}"


def is_about_streams(stream: str) -> bool:
    """Whether a stream has facts about another one."""
    return names.kind_of(stream) == KIND


def is_about_state(stream: str) -> bool:
    """Whether a stream has facts that folds look up: about a stream, or about snapshots of the store."""
    return stream == STORE_SNAPSHOTS or is_about_streams(stream)


def snapshot_of(event: Event, fact: Snapshotted, body: bytes) -> Snapshot:
    """The snapshot that a fact describes, with its body."""
    return Snapshot(
        id=event.id,
        stream=fact.stream,
        seq=fact.seq,
        position=fact.position,
        link=bytes.fromhex(fact.link),
        reducer=fact.reducer,
        reducer_version=fact.reducer_version,
        upcasters=bytes.fromhex(fact.upcasters),
        state_hash=bytes.fromhex(fact.state_hash),
        made=event.time,
        body=body,
        kind=DIFF if fact.base is not None else FULL,
        base=None if fact.base is None else bytes.fromhex(fact.base),
        last_event_id=bytes.fromhex(fact.last_event_id),
    )


def parse(event: Event, kind: type[F]) -> F:
    """The fact in a control event."""
    return msgspec.convert(event.data, kind)
