"""The rank of each node at each event, derived only from the set of acts.

The last act before an event in the merged order decides the rank of its author. An act that reduces a rank names a cut:
everything that the author wrote after the cut is affected too, however early its lamport claims to be.

Two nodes can never revoke each other, because only a strictly higher rank decides over a rank: acts of the owner are
judged first, then those of admins, whose rank the owner's acts have fixed. A cut applies only to events at which its
target ranked below the actor. So each level depends on the levels above it, and the result on the set, not on arrival.

An invitation admits as many nodes as it says. Of several for one key and role, the newest counts. Revoking its key
voids its remaining uses. Acts that cannot decide anything are dropped first, so that nobody below an admin can make
judging slow by writing many acts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tallystick.community.acts import SEQ_MAX, Act
from tallystick.community.entry import Key
from tallystick.community.rank_reductions import RankReductions
from tallystick.community.types import ADMIN, CREATED, DEMOTED, INVITED, JOINED, MEMBER, OWNER, PROMOTED, REVOKED

_END: Key = (1 << 64, b"", b"")  # after every event


class Setting(msgspec.Struct, frozen=True, order=True, gc=False):
    """From this key on a node has this rank. A reduction applies after its own event, so that leaving still counts."""

    key: Key
    lowers: int
    rank: int
    by: int
    cut: int = SEQ_MAX


class Invite(msgspec.Struct):
    """An invitation that counts, and who has used it."""

    key: Key
    rank: int
    by: int
    uses: int
    users: set[str]


class Roster:
    """The ranks of every node at every event."""

    def __init__(self, acts: Iterable[Act]) -> None:
        self._settings: dict[str, list[Setting]] = {}
        self._places: dict[str, list[tuple[Key, int]]] = {}
        self._lowerings: dict[str, RankReductions] = {}
        self._invites: dict[tuple[str, int], list[Invite]] = {}  # by key and role; ascending
        ordered = sorted(_deciding(list(acts)), key=lambda act: act.key)
        for act in ordered:
            if act.kind == CREATED:
                self._set(act.node, Setting(act.key, 0, OWNER, OWNER + 1))
        for level in (OWNER, ADMIN):
            for act in ordered:
                if act.kind == JOINED:
                    self._join(act, level)
                elif act.kind != CREATED and self._level(act) == level:
                    self._perform(act, self.rank(act.actor, act.key, act.seq))

    def rank(self, node: str, key: Key, seq: int) -> int:
        """The rank of a node at its event with this key and seq; 0 if it is not a member there."""
        settings = self._settings.get(node)
        if settings is None:
            return 0
        place = (key, 0)
        at = bisect_right(self._places[node], place)
        rank = settings[at - 1].rank if at else 0
        lowerings = self._lowerings.get(node)
        return rank if lowerings is None else lowerings.lowered(rank, place, seq)

    def lines(self) -> Mapping[str, list[Setting]]:
        """What was set for each node, in order; shows whose events must be judged again."""
        return self._settings

    def now(self) -> dict[str, int]:
        """The rank of each node after the last act."""
        return {node: settings[-1].rank for node, settings in self._settings.items()}

    def is_member(self, node: str) -> bool:
        """Whether a node has a rank after the last act."""
        settings = self._settings.get(node)
        return settings is not None and settings[-1].rank > 0

    def is_revoked(self, node: str) -> bool:
        """Whether a node had a rank, and has none after the last act."""
        return node in self._settings and not self.is_member(node)

    def admits(self, node: str, invite: str) -> bool:
        """Whether a node that joins now with this invitation would become a member."""
        return any(self._usable(node, invite, rank, _END) is not None for rank in (ADMIN, MEMBER))

    def _level(self, act: Act) -> int:
        """The level at which an act is judged: its actor's rank. A member that leaves is judged with the admins."""
        rank = self.rank(act.actor, act.key, act.seq)
        leaves = rank == MEMBER and act.kind == REVOKED and act.node == act.actor
        return ADMIN if leaves else rank

    def _perform(self, act: Act, level: int) -> None:
        if act.kind == INVITED:
            if act.rank < level:
                self._invite(act.node, Invite(act.key, act.rank, level, act.uses, set()))
            return
        before = self.rank(act.node, act.key, 0)
        if before >= level and act.node != act.actor:
            return  # only a strictly higher rank decides over a rank
        raises = act.kind == PROMOTED and before < act.rank < level
        lowers = act.kind == REVOKED or (act.kind == DEMOTED and act.rank < before)
        if raises:
            self._set(act.node, Setting(act.key, 0, act.rank, level))
        elif lowers:
            self._set(act.node, Setting(act.key, 1, act.rank, level, act.cut))

    def _invite(self, node: str, invite: Invite) -> None:
        invites = self._invites.setdefault((node, invite.rank), [])
        invites.insert(bisect_left(invites, invite.key, key=lambda each: each.key), invite)

    def _join(self, act: Act, level: int) -> None:
        """Admins join at the owner's level, members at the next, when every revocation that may stop them is known."""
        granted = ADMIN if level == OWNER else MEMBER
        if self.rank(act.actor, act.key, 0) >= granted:
            return
        invite = self._usable(act.actor, act.node, granted, act.key)
        if invite is not None:
            invite.users.add(act.actor)
            self._set(act.actor, Setting(act.key, 0, granted, invite.by))

    def _usable(self, actor: str, node: str, granted: int, key: Key) -> Invite | None:
        """The invitation of a key that makes this actor a member at this position; None if none is left."""
        invites = self._invites.get((node, granted), [])
        at = bisect_left(invites, key, key=lambda each: each.key)
        if not at:
            return None
        invite = invites[at - 1]
        if any(self._lowered_between(each, invite.key, key) for each in (actor, node)):
            return None
        return invite if actor in invite.users or len(invite.users) < invite.uses else None

    def _lowered_between(self, node: str, first: Key, last: Key) -> bool:
        lowerings = self._lowerings.get(node)
        return lowerings is not None and lowerings.between(first, last)

    def _set(self, node: str, setting: Setting) -> None:
        settings = self._settings.setdefault(node, [])
        places = self._places.setdefault(node, [])
        place = (setting.key, setting.lowers)
        at = bisect_right(places, place)
        settings.insert(at, setting)
        places.insert(at, place)
        if setting.lowers:
            lowerings = self._lowerings.setdefault(node, RankReductions())
            lowerings.add(place, by=setting.by, rank=setting.rank, cut=setting.cut)


def _deciding(acts: Sequence[Act]) -> list[Act]:
    """Acts that may decide something: acts of possible admins, joins by their invitations, and leavings."""
    founders = {act.node for act in acts if act.kind == CREATED}
    by_founders = [act for act in acts if act.actor in founders and act.rank == ADMIN]
    named = {act.node for act in by_founders if act.kind in (INVITED, PROMOTED)}
    admins = founders | named | {act.actor for act in acts if act.kind == JOINED and act.node in named}
    invited = {act.node for act in acts if act.kind == INVITED and act.actor in admins}
    return [act for act in acts if act.actor in admins or _is_own(act, invited)]


def _is_own(act: Act, invited: set[str]) -> bool:
    """Whether the act is a join by an invitation that may count, or a leaving."""
    return act.node in invited if act.kind == JOINED else act.kind == REVOKED and act.node == act.actor
