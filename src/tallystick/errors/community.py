"""What communities refuse: events, snapshots, peers and messages."""

from __future__ import annotations

from tallystick.errors.base import TallyError

__all__ = [
    "BadMessage",
    "CommunityMissing",
    "EventLogError",
    "PeerRefused",
    "SnapshotRejected",
    "SyncFailed",
]


class EventLogError(TallyError):
    """An event of a community was refused, held, or stored without counting; `code` says which rule it met.

    The codes: invalid_signature, out_of_order, unknown_author, revoked_author, schema_unknown, db_corrupt.
    """

    template = "{code}: {reason}"
    advice = "docs/community.md has a table of the codes, and says which events are refused, held or stored."
    exit_status = 1
    code: str
    reason: str


class SnapshotRejected(TallyError):
    """A snapshot of a community is damaged, is not trusted, or does not fit this log."""

    template = "the snapshot is not accepted: {reason}"
    advice = "Get it from another peer, or join without a snapshot: the whole log gives the same state."
    exit_status = 1
    reason: str


class PeerRefused(TallyError):
    """A peer is not on the list, or calls to its address are not allowed."""

    template = "peer {peer!r} is refused: {reason}"
    advice = "Add it with --peer URL. A private address needs --allow-private."
    peer: str
    reason: str


class SyncFailed(TallyError):
    """A peer could not be reached, or broke the protocol."""

    template = "sync with {peer!r} failed: {reason}"
    advice = "Nothing was lost. The events that arrived are stored, and the next round continues from there."
    peer: str
    reason: str


class BadMessage(TallyError):
    """A message of the sync protocol is malformed or exceeds a limit."""

    template = "{what} is not accepted: {reason}"
    advice = "Correct the sender. docs/formats/community.md has the wire format."
    exit_status = 1
    what: str
    reason: str


class CommunityMissing(TallyError):
    """There is no community in this directory, or it belongs to another one."""

    template = "no community at {place!r}: {reason}"
    advice = "Create one with `tally community init`, or join one with an invitation."
    place: str
    reason: str
