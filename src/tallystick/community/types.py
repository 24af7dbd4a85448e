"""The vocabulary of a community: its fixed list of event types, and the event as users and peers see it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

EventType: TypeAlias = Literal[
    "community.created",
    "community.member.invited",
    "community.member.joined",
    "community.member.revoked",
    "community.member.promoted",
    "community.member.demoted",
    "community.policy.updated",
    "node.manifest.updated",
    "market.post.created",
    "market.post.updated",
    "market.post.expired",
    "chat.message.sent",
    "chat.message.delivered",
    "chat.message.read",
    "file.cid.advertised",
    "file.cid.unpinned",
    "rag.document.ingested",
    "federation.peer.added",
    "federation.peer.removed",
]

EVENT_TYPES: tuple[str, ...] = get_args(EventType)
RESERVED_TYPES = frozenset({"federation.peer.added", "federation.peer.removed"})
SCHEMA_VERSION = 1

CREATED, INVITED, JOINED, REVOKED, PROMOTED, DEMOTED, POLICY = EVENT_TYPES[:7]
MEMBERSHIP_TYPES = frozenset({CREATED, INVITED, JOINED, REVOKED, PROMOTED, DEMOTED})
KNOWN_TYPES = frozenset(EVENT_TYPES)

MEMBER, ADMIN, OWNER = 1, 2, 3
RANKS = {"member": MEMBER, "admin": ADMIN, "owner": OWNER}
ROLES = {rank: role for role, rank in RANKS.items()}

LAMPORT_AHEAD_MAX = 1_000_000
SNAPSHOT_LAG_LAMPORT = 1000
EVENT_LOG_RETENTION_DAYS = 30
SNAPSHOTS_KEPT = 7


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A signed event on the wire: the nine fields of the envelope, then the fields needed to verify it on its own.

    `wall_clock` is `time_ns` as RFC 3339; `lamport` and `author` are also in `meta` and must agree. The signature is
    over the text of docs/formats/chain.md. Other fields are ignored, because no signature covers them: put what has
    to be passed on into `data` or `meta`.
    """

    schema_version: int
    event_id: str
    lamport: int
    wall_clock: str
    community_id: str
    author: str
    event_type: str
    data: dict[str, Any]
    signature: str
    seq: int
    previous: str
    time_ns: int
    meta: dict[str, Any]
