"""Who had which rank at which event, from the set of acts alone.

The rank of an author at an event is what the last act before it in the merged order made it; an act that lowers names
a cut, and what the author wrote behind the cut is lowered too, however early its lamport pretends to be.

There are no duels to settle, because a rank is decided by strictly higher ranks alone: acts of the owner are judged
first, then those of admins, whose rank the owner's acts have fixed. A cut reaches back only over events at which its
target ranked below the actor. So each level rests on the levels above it, and the result on the set, not on arrival.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

from tallystick.community.acts import SEQ_MAX, Act
from tallystick.community.entry import Key
from tallystick.community.types import ADMIN, CREATED, DEMOTED, INVITED, JOINED, MEMBER, OWNER, PROMOTED, REVOKED


class Setting(msgspec.Struct, frozen=True, order=True, gc=False):
    """From here on a node has this rank. A lowering stands behind its own event, so that leaving still counts."""

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
        self._invites: dict[str, list[Invite]] = {}
        ordered = sorted(acts, key=lambda act: act.key)
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
        """The rank of a node at its event with this place and seq: 0 if it is no member there."""
        settings = self._settings.get(node)
        if settings is None:
            return 0
        at = bisect_right(self._places[node], (key, 0))
        rank = by_order = settings[at - 1].rank if at else 0
        for setting in settings[at:]:
            if setting.lowers and setting.cut < seq and by_order < setting.by:
                rank = min(rank, setting.rank)
        return rank

    def lines(self) -> Mapping[str, list[Setting]]:
        """What was set for whom, in order; to see whose events have to be judged again."""
        return self._settings

    def now(self) -> dict[str, int]:
        """The rank of each node behind the last act."""
        return {node: settings[-1].rank for node, settings in self._settings.items()}

    def _level(self, act: Act) -> int:
        """On which level an act is judged: that of its actor's rank; a member that leaves is judged with the admins."""
        rank = self.rank(act.actor, act.key, act.seq)
        leaves = rank == MEMBER and act.kind == REVOKED and act.node == act.actor
        return ADMIN if leaves else rank

    def _perform(self, act: Act, level: int) -> None:
        if act.kind == INVITED:
            if act.rank < level:
                self._invites.setdefault(act.node, []).append(Invite(act.key, act.rank, level, act.uses, set()))
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

    def _join(self, act: Act, level: int) -> None:
        """Admins join on the owner's level, members on the next, when every revocation that may stop them is known."""
        granted = ADMIN if level == OWNER else MEMBER
        for invite in self._invites.get(act.node, ()):
            if invite.rank != granted or not invite.key < act.key or self.rank(act.actor, act.key, 0) > granted:
                continue
            if self._lowered_between(act.actor, invite.key, act.key):
                continue
            if act.actor in invite.users or len(invite.users) < invite.uses:
                invite.users.add(act.actor)
                self._set(act.actor, Setting(act.key, 0, granted, invite.by))
                return

    def _lowered_between(self, node: str, first: Key, last: Key) -> bool:
        return any(setting.lowers and first < setting.key < last for setting in self._settings.get(node, ()))

    def _set(self, node: str, setting: Setting) -> None:
        settings = self._settings.setdefault(node, [])
        places = self._places.setdefault(node, [])
        at = bisect_right(places, (setting.key, setting.lowers))
        settings.insert(at, setting)
        places.insert(at, (setting.key, setting.lowers))
