"""Floors: history that the founder declared settled. It can be pruned, and newcomers can start after it.

A floor names, for each author, the last event that it covers. Covered events are judged once, only from the covered
events, and folded first. Everything else is folded after them in the merged order, even if it arrives late with an old
lamport. So a node with the whole log and a node that started at a snapshot of the floor agree on every state.

A floor is a `community.policy.updated` by the founder: {"floor": {"after", "heads", "digest"}}, chained by digest.
Only one author writes them, so there are never two floors to choose from.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.community import identity
from tallystick.community.acts import Act
from tallystick.community.entry import FeedEntry
from tallystick.community.feeds import NOTHING, FeedHead
from tallystick.community.roster import Roster

if TYPE_CHECKING:
    from tallystick.community.replica import Replica


class Base(msgspec.Struct, frozen=True):
    """What a node starts from instead of the whole log: nothing, or what a floor covers."""

    heads: dict[str, FeedHead] = {}
    acts: tuple[Act, ...] = ()
    nodes: tuple[str, ...] = ()
    lamport: int = 0
    floor: bytes = b""  # the digest of the above


class Floor(msgspec.Struct, frozen=True):
    """A floor as its event describes it."""

    after: bytes
    heads: dict[str, FeedHead]
    digest: bytes


class Covered(msgspec.Struct, frozen=True):
    """What a floor covers in addition to the floor before it: the new base, and the counted events, in order."""

    base: Base
    entries: list[FeedEntry]
    roster: Roster


def digest(heads: dict[str, FeedHead], acts: tuple[Act, ...], nodes: tuple[str, ...]) -> bytes:
    """The digest of a floor: where the feeds are cut, the known nodes, and every act below."""
    lines = [f"{author}\n{head.seq}\n{head.link.hex()}" for author, head in sorted(heads.items())]
    lines += [act.link.hex() for act in acts]
    lines += nodes
    return hashlib.sha256(identity.tagged("tallystick/floor/1", *lines)).digest()


def payload_of(base: Base, after: bytes) -> dict[str, Any]:
    """The data of the event that declares a base as the floor."""
    heads = {author: [head.seq, head.link.hex(), head.lamport] for author, head in sorted(base.heads.items())}
    return {"floor": {"after": after.hex(), "heads": heads, "digest": base.floor.hex()}}


def floor_of(entry: FeedEntry) -> Floor | None:
    """The floor that a policy event declares; None if there is none, or it is malformed."""
    found = entry.data.get("floor")
    try:
        assert isinstance(found, dict)
        heads = {
            author: FeedHead(int(seq), bytes.fromhex(link), int(lamport))
            for author, (seq, link, lamport) in found["heads"].items()
            if identity.is_node_id(author)
        }
        floor = Floor(bytes.fromhex(found["after"]), heads, bytes.fromhex(found["digest"]))
        return None if floor.after == floor.digest else floor  # a floor that covers nothing new would follow itself
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
        return None


def heads_at(replica: Replica, lamport: int) -> dict[str, FeedHead]:
    """Where each feed would be cut: at its last event that belongs to the evidence and is not past this lamport."""
    found = dict(replica.base.heads)
    for author, tip in replica.tips().items():
        for entry in replica.feeds[author].between(found.get(author, NOTHING).seq, tip.seq):
            if entry.lamport > lamport:
                break
            found[author] = FeedHead(entry.seq, entry.link, entry.lamport)
    return found


def cover(replica: Replica, heads: dict[str, FeedHead]) -> Covered | None:
    """What these heads cover beyond the node's base; None if some of it is missing or different here."""
    entries: list[FeedEntry] = []
    for author, head in heads.items():
        below = replica.base.heads.get(author, NOTHING)
        feed = replica.feeds.get(author)
        last = feed.get(head.seq) if feed else None
        if head.seq > below.seq and (last is None or last.link != head.link):
            return None
        if head.seq < below.seq:
            return None
        entries += feed.between(below.seq, head.seq) if feed else []
    if any(author not in heads for author in replica.base.heads):
        return None
    return _judged(replica, heads, sorted(entries, key=lambda entry: entry.key))


def _judged(replica: Replica, heads: dict[str, FeedHead], entries: list[FeedEntry]) -> Covered:
    """Judge the covered events on their own: later knowledge does not change anything below a floor."""
    scratch = type(replica)(replica.community, base=replica.base, verify=replica.verify)
    scratch.apply(entries)
    acts = tuple(sorted((*replica.base.acts, *scratch.acts.values()), key=lambda act: act.key))
    nodes = tuple(sorted(scratch.known.nodes))
    lamport = max((head.lamport for head in heads.values()), default=0)
    base = Base(dict(heads), acts, nodes, lamport, digest(heads, acts, nodes))
    return Covered(base, list(scratch.counted.entries()), scratch.roster)
