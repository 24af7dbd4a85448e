"""Handles do not survive a fork: a child could destroy its parent's database, or wait for a lock that nobody frees."""

from __future__ import annotations

import os

from tallystick import errors


class OwnerProcess:
    """The process that opened a handle. The handle works only there."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether this code runs in that process."""
        return os.getpid() == self._pid

    def require(self) -> None:
        """Refuse to work in a forked child."""
        if not self.is_current:
            reason = f"the handle belongs to pid {self._pid} and was inherited by pid {os.getpid()}"
            raise errors.StoreFailed(operation="a fork", reason=reason)
