"""What a read returns: events, and how far the log was scanned to find them."""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event.model import Event


class Hole(msgspec.Struct, frozen=True, omit_defaults=True):
    """A range of positions whose bytes are damaged. Nothing in it is returned, and nothing is deleted.

    `accepted`: the loss was accepted (`store/loss.py`). It no longer counts as damage, but cannot be read either.
    """

    first: int
    last: int
    reason: str
    accepted: bool = False

    @property
    def refusal(self) -> errors.Damaged:
        """Why nothing in it is given."""
        return errors.Damaged(first=self.first, last=self.last, reason=self.reason)


class Page(msgspec.Struct, frozen=True):
    """Events in ascending position. `through` rises even if a filter selects nothing: use it as the checkpoint."""

    events: list[Event]
    through: int
    holes: tuple[Hole, ...] = ()


class StreamInfo(msgspec.Struct, frozen=True):
    """One stream in a list of streams."""

    stream: str
    seq: int
    link: bytes
    org: str | None = None
