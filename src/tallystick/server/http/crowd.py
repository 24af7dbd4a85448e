"""All open connections, by caller, and which of them has to go when there are too many.

A connection belongs to its address until a request on it was authorised, then to that caller. When one too many comes,
somebody else makes room: the oldest of those that never showed a token while these are more than half, else the oldest
idle one of the caller that has most. So idle connections keep nobody out, and no caller can have them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

ANONYMOUS = "address"  # callers that begin so have shown no token
SHARES = 4


class Member(Protocol):
    """A connection, as far as it counts here."""

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is under way."""


class Crowd:
    """The connections of one service."""

    def __init__(self, *, count_max: int) -> None:
        self._count_max = count_max
        self._callers: dict[str, dict[Member, None]] = {}
        self._caller_of: dict[Member, str] = {}
        self._anonymous = 0

    def join(self, member: Member, caller: str) -> None:
        """Take a connection in, or move it to another caller; as the newest of these."""
        if self._caller_of.get(member) != caller:
            self.leave(member)
            self._caller_of[member] = caller
            self._callers.setdefault(caller, {})[member] = None
            self._anonymous += caller.startswith(ANONYMOUS)

    def leave(self, member: Member) -> None:
        """Forget a connection."""
        caller = self._caller_of.pop(member, None)
        if caller is not None:
            group = self._callers[caller]
            del group[member]
            self._anonymous -= caller.startswith(ANONYMOUS)
            if not group:
                del self._callers[caller]

    @property
    def is_full(self) -> bool:
        """Whether there are too many."""
        return len(self._caller_of) > self._count_max

    def victim(self) -> Member | None:
        """The one that has to go; None if every one of them has a right to stay."""
        if self._anonymous > self._count_max // 2:
            return next(iter(_largest(self._callers[name] for name in self._callers if name.startswith(ANONYMOUS))))
        group = _largest(self._callers.values())
        idle = next((member for member in group if member.is_idle), None)
        return idle or (next(iter(group)) if len(group) > self._count_max // SHARES else None)


def _largest(groups: Iterable[dict[Member, None]]) -> dict[Member, None]:
    return max(groups, key=len)
