"""Accepted losses: ranges whose bytes are damaged, which nobody can refill, and which an operator gave up.

A lost range stays what it is. Its positions are never used again. A reader that does not ask to step over it is refused
by name (`HistoryLost`). Everything around it is readable, and the log is writable. A control fact in a stream of its
own, `tally.loss/<id>`, says what was lost, on what evidence, and where the damaged bytes are kept.

If an index knew the range, the ends of its streams are known: they go on after them, in seq and link. If not, a stream
that may have events there goes on after as many seqs as the range had positions, so that no seq is used twice, and its
chain follows from the last event that is known.
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
        """How many positions it has, which is at most how many events a stream has lost."""
        return self.last - self.first + 1

    @property
    def hole(self) -> Hole:
        """The range as a page names it."""
        return Hole(self.first, self.last, self.reason, accepted=True)

    @property
    def refusal(self) -> errors.HistoryLost:
        """Why what lies in it is not given."""
        return errors.HistoryLost(first=self.first, last=self.last, reason=self.reason)

    def end_of(self, stream: str) -> LostEnd | None:
        """The end of a stream, if it is known to lie here."""
        return next((end for end in self.ends if end.stream == stream), None)


def between(losses: Sequence[Loss], after: int, until: int) -> list[Loss]:
    """Those that hold positions with after < position <= until."""
    return [loss for loss in losses if loss.last > after and loss.first <= until]


def readable_until(losses: Sequence[Loss], *, after: int, until: int) -> int:
    """How far a reading may go that does not step over losses. Refused if it starts in one."""
    if not losses:
        return until
    if losses[0].first <= after + 1:
        raise losses[0].refusal
    return losses[0].first - 1


def named_in(page: Page, losses: Sequence[Loss]) -> Page:
    """A page that stepped over losses, with those that it reached."""
    reached = [loss.hole for loss in losses if loss.first <= page.through]
    holes = sorted([*page.holes, *reached], key=lambda hole: hole.first)
    return msgspec.structs.replace(page, holes=tuple(holes))


def head_after(
    losses: Sequence[Loss], stream: str, found: Head | None, position_of: Callable[[Head], int]
) -> Head | None:
    """The end of a stream, given the end of what is left of it and a way to find the position of that."""
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
        elif names.is_reserved(stream):  # nobody may take a reserved stream for one that never began
            found, place = Head(loss.count, chain.GENESIS, None), loss.last
    return found


def require_none_after(losses: Sequence[Loss], found: Sequence[Event], *, head: Head | None, reached: int) -> None:
    """Refuse the reading of a stream that ended at the seq `reached`, if it goes on in a loss."""
    if head is not None and reached < head.seq:
        last = found[-1].position if found else 0
        raise next((loss for loss in losses if loss.first > last), losses[-1]).refusal
