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
    advice = "docs/community.md has a table of the codes: which are refused, which are held, which are stored."
    exit_status = 1
    code: str
    reason: str


class SnapshotRejected(TallyError):
    """A snapshot of a community cannot be trusted or does not fit."""

    template = "the snapshot is not accepted: {reason}"
    advice = "Get it from another peer, or join without one: the whole log gives the same state."
    exit_status = 1
    reason: str


class PeerRefused(TallyError):
    """A peer is not on the allow-list, or its address is not one that may be called."""

    template = "peer {peer!r} is refused: {reason}"
    advice = "Add it with --peer URL; a private address needs --allow-private."
    peer: str
    reason: str


class SyncFailed(TallyError):
    """A peer could not be reached, or did not keep to the protocol."""

    template = "sync with {peer!r} failed: {reason}"
    advice = "Nothing was lost: what arrived is stored, and the next round goes on from there."
    peer: str
    reason: str


class BadMessage(TallyError):
    """A message of the sync protocol is malformed or past its limits."""

    template = "{what} is not acceptable: {reason}"
    advice = "Correct the sender; docs/formats/community.md has the wire format."
    exit_status = 1
    what: str
    reason: str


class CommunityMissing(TallyError):
    """There is no community at this place, or what is there belongs to another one."""

    template = "no community at {place!r}: {reason}"
    advice = "Make one with `tally community init`, or join one with an invitation."
    place: str
    reason: str
