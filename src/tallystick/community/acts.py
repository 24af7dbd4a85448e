"""Acts of membership, decoded from signed events. A malformed act has no effect; its event stays in the feed."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.community import identity
from tallystick.community.acceptance import Verify
from tallystick.community.entry import FeedEntry, Key
from tallystick.community.types import (
    CREATED,
    DEMOTED,
    INVITED,
    JOINED,
    MEMBER,
    MEMBERSHIP_TYPES,
    OWNER,
    PROMOTED,
    RANKS,
    REVOKED,
)

USES_MAX = 1000
SEQ_MAX = 1 << 62


class Act(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who did what to whom. In an invitation `node` is the invited key; in a join it is the key of the invitation used.

    `cut` is the last seq of the node that the actor has seen. Later events of the node count as written after the act.
    """

    lamport: int
    id: bytes
    link: bytes
    actor: str
    seq: int
    kind: str
    node: str
    rank: int = 0
    cut: int = SEQ_MAX
    uses: int = 1

    @property
    def key(self) -> Key:
        """Its position in the merged order."""
        return (self.lamport, self.id, self.link)


def proof_text(community: str, author: str) -> bytes:
    """What the holder of an invitation signs with its key, to join with another."""
    return identity.tagged(identity.INVITATION_TAG, community, author)


def act_of(entry: FeedEntry, community: str, verify: Verify) -> Act | None:
    """The act in an event; None if the event is not an act, or a malformed one."""
    if entry.type not in MEMBERSHIP_TYPES or entry.version != 1:
        return None
    fields = _fields(entry, entry.data, community, verify)
    if fields is None:
        return None
    return Act(*entry.key, entry.author, entry.seq, entry.type, **fields)


def _fields(entry: FeedEntry, data: dict[str, Any], community: str, verify: Verify) -> dict[str, Any] | None:
    if entry.type == CREATED:
        return {"node": entry.author, "rank": OWNER} if entry.author == community and entry.seq == 1 else None
    node = data.get("invite" if entry.type == JOINED else "node")
    if not identity.is_node_id(node):
        return None
    assert isinstance(node, str)
    if entry.type == JOINED:
        return {"node": node} if _proven(entry, node, data.get("proof"), community, verify) else None
    if entry.type == REVOKED:
        return {"node": node, "cut": _number(data.get("seq"), 0, SEQ_MAX, SEQ_MAX)}
    role = data.get("role", "member")
    rank = RANKS.get(role) if isinstance(role, str) else None
    if rank is None or rank == OWNER:
        return None
    if entry.type == INVITED:
        return {"node": node, "rank": rank, "uses": _number(data.get("uses"), 1, USES_MAX, 1)}
    if entry.type == PROMOTED:
        return {"node": node, "rank": rank} if rank > MEMBER else None
    assert entry.type == DEMOTED
    return {"node": node, "rank": rank, "cut": _number(data.get("seq"), 0, SEQ_MAX, SEQ_MAX)}


def _proven(entry: FeedEntry, invite: str, proof: object, community: str, verify: Verify) -> bool:
    if invite == entry.author:
        return True
    if not isinstance(proof, str) or len(proof) != 128:
        return False
    try:
        signature = bytes.fromhex(proof)
    except ValueError:
        return False
    return verify(identity.public_key(invite), proof_text(community, entry.author), signature)


def _number(value: object, least: int, most: int, otherwise: int) -> int:
    return value if type(value) is int and least <= value <= most else otherwise
