"""All open connections by caller, and which of them is closed when there are too many.

A connection belongs to its address until a request on it was authorised, and then to that caller. If there is one too
many, another one is closed: the oldest of those that never showed a token, if these are more than half; otherwise the
oldest idle one of the caller that has most. So idle connections keep nobody out, and no caller can have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

ANONYMOUS = "address"  # a caller whose name begins so has shown no token
SHARES = 4


class CrowdMember(Protocol):
    """What a connection must be able to say."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no request in progress."""


class Crowd:
    """The connections of one service."""

    def __init__(self, *, count_max: int) -> None:
        self._count_max = count_max
        self._callers: dict[str, dict[CrowdMember, None]] = {}
        self._caller_of: dict[CrowdMember, str] = {}
        self._anonymous = 0

    def join(self, member: CrowdMember, caller: str) -> None:
        """Add a connection, or move it to another caller, as the newest one."""
        if self._caller_of.get(member) != caller:
            self.leave(member)
            self._caller_of[member] = caller
            self._callers.setdefault(caller, {})[member] = None
            self._anonymous += caller.startswith(ANONYMOUS)

    def leave(self, member: CrowdMember) -> None:
        """Remove a connection."""
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

    def victim(self) -> CrowdMember | None:
        """The connection to close; None if all of them may stay."""
        if self._anonymous > self._count_max // 2:
            return next(iter(_largest(self._callers[name] for name in self._callers if name.startswith(ANONYMOUS))))
        group = _largest(self._callers.values())
        idle = next((member for member in group if member.is_idle), None)
        return idle or (next(iter(group)) if len(group) > self._count_max // SHARES else None)


def _largest(groups: Iterable[dict[CrowdMember, None]]) -> dict[CrowdMember, None]:
    return max(groups, key=len)
