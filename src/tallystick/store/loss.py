"""Accepted losses: damaged ranges that cannot be refilled, and that an operator gave up.

The positions of a lost range are never used again. A read that reaches it without `over_holes` fails with
`HistoryLost`. Everything around it is readable, and the log is writable. A control fact in a stream of its own,
`tally.loss/<id>`, says what was lost, on what evidence, and where the damaged bytes are stored.

If an index knew the range, the ends of its streams are known, and the streams continue after them in seq and link. If
not, every stream that may have events there continues after as many seqs as the range has positions, so that no seq is
used twice. Its chain continues from the last known event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tallystick import errors
from tallystick.event import chain, names
from tallystick.event.model import Event
from tallystick.store.ledger import Head
from tallystick.store.page import Hole, Page

KIND = "tally.loss"
ACCEPTED = "tally.loss.accepted"


class LostEnd(msgspec.Struct, frozen=True, array_like=True):
    """The end of a stream that lies in a lost range, as an index knew it."""

    stream: str
    seq: int
    link: bytes
    org: str | None = None


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """One lost range. `is_indexed` says that `ends` are all the streams that end in it."""

    first: int
    last: int
    reason: str
    is_indexed: bool = False
    ends: tuple[LostEnd, ...] = ()

    @property
    def count(self) -> int:
        """The number of positions: at most so many events of a stream are lost."""
        return self.last - self.first + 1

    @property
    def hole(self) -> Hole:
        """The range as it is listed in a page."""
        return Hole(self.first, self.last, self.reason, accepted=True)

    @property
    def refusal(self) -> errors.HistoryLost:
        """The error for a read that reaches the range."""
        return errors.HistoryLost(first=self.first, last=self.last, reason=self.reason)

    def end_of(self, stream: str) -> LostEnd | None:
        """The end of a stream, if it is known to lie in this range."""
        return next((end for end in self.ends if end.stream == stream), None)


def between(losses: Sequence[Loss], after: int, until: int) -> list[Loss]:
    """The losses that have positions with after < position <= until."""
    return [loss for loss in losses if loss.last > after and loss.first <= until]


def readable_until(losses: Sequence[Loss], *, after: int, until: int) -> int:
    """How far a read may go that does not skip losses. Refused if it starts at one."""
    if not losses:
        return until
    if losses[0].first <= after + 1:
        raise losses[0].refusal
    return losses[0].first - 1


def named_in(page: Page, losses: Sequence[Loss]) -> Page:
    """A page that skipped losses, with those that it reached in its list of holes."""
    reached = [loss.hole for loss in losses if loss.first <= page.through]
    holes = sorted([*page.holes, *reached], key=lambda hole: hole.first)
    return msgspec.structs.replace(page, holes=tuple(holes))


def head_after(
    losses: Sequence[Loss], stream: str, found: Head | None, position_of: Callable[[Head], int]
) -> Head | None:
    """The end of a stream, given the end of what is left of it, and a function for the position of that."""
    place: int | None = None
    for loss in losses:
        end = loss.end_of(stream)
        if found is not None and end is not None and found.seq == end.seq:
            place = loss.last  # the engine knows it as the end, and no event is there
        elif end is not None or loss.is_indexed or names.kind_of(stream) == KIND:
            continue
        elif found is not None:
            place = position_of(found) if place is None else place
            if place < loss.first:
                found, place = Head(found.seq + loss.count, found.link, found.org), loss.last
        elif names.is_reserved(stream):  # a reserved stream must not look as if it had never begun
            found, place = Head(loss.count, chain.GENESIS, None), loss.last
    return found


def require_none_after(losses: Sequence[Loss], found: Sequence[Event], *, head: Head | None, reached: int) -> None:
    """Refuse a read of a stream that ended at the seq `reached`, if the stream continues in a loss."""
    if head is not None and reached < head.seq:
        last = found[-1].position if found else 0
        raise next((loss for loss in losses if loss.first > last), losses[-1]).refusal
