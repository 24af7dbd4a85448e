"""What leaves an engine is checked here: payloads against their checksums, and each event against the link before it.

An engine calls `page`, `stream` or `event` with what it is about to return, and says what it knows of the events that
it does not return (`Evidence`). What does not hold goes on record, so that appends are refused from then on, and is
then treated like any other damaged range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store.damage import DamageRecord, put_on_record
from tallystick.store.events import Problem
from tallystick.store.page import Hole, Page

_CHECKSUM = Problem("checksum", "the payload does not have its checksum")
_LINK = Problem("link", "the link does not follow from the event and the link before it")
_ERASURE = Problem("erasure", "the payload is gone, and no erasure is noted")


class Evidence(Protocol):
    """What an engine knows besides the events that it returns."""

    def links_before(self, events: Sequence[Event]) -> Sequence[bytes | None]:
        """For each event the link of the one before it in its stream; None where that cannot be seen."""

    def erased(self, positions: Sequence[int]) -> Collection[int]:
        """Those of these positions whose erasure is noted."""


def page(
    record: DamageRecord,
    found: Page,
    evidence: Evidence,
    *,
    after: int,
    over_holes: bool = False,
    gapless: bool = False,
    hashed: bool = False,
) -> Page:
    """A page whose events hold. It ends before the first one that does not, and is refused if it starts with that.

    With `over_holes` such events are left out, and named as holes. `gapless` means that nothing was filtered out, so
    that the seqs of a stream follow each other. `hashed` means that the medium has a hash over all fields of an event,
    which was compared: links are left to `stream` then, because they cost as much as everything else together.
    """
    wrong = _payloads(found.events, evidence)
    if not hashed:
        wrong += _links(found.events, evidence, gapless=gapless)
    if not wrong:
        return found
    put_on_record(record, wrong)
    holes = [_hole(problem) for problem in wrong]
    if over_holes:
        bad = {problem.position for problem in wrong}
        kept = [event for event in found.events if event.position not in bad]
        return Page(kept, found.through, tuple(sorted({*found.holes, *holes}, key=lambda hole: hole.first)))
    first = min(holes, key=lambda hole: hole.first)
    if first.first - 1 <= after:
        raise _refusal(first)
    kept = [event for event in found.events if event.position < first.first]
    return Page(kept, first.first - 1, tuple(hole for hole in found.holes if hole.last < first.first))


def stream(
    record: DamageRecord, events: Sequence[Event], evidence: Evidence, *, after: int, gapless: bool = True
) -> list[Event]:
    """The events of one stream behind the seq `after`. Refused whole if one of them does not hold.

    The event at `after` may be the first of those given, and is not returned. Unless `gapless`, some may be hidden.
    """
    found, link = list(events), None
    if found and found[0].seq == after:
        link = found.pop(0).link
    elif found and found[0].seq == after + 1:
        link = chain.GENESIS if after == 0 else evidence.links_before(found[:1])[0]
    wrong = _payloads(found, evidence)
    seq = after
    for event in found:
        if event.seq != seq + 1:
            if gapless or event.seq <= seq:
                wrong.append(_at(event, Problem("sequence", f"seq {event.seq} follows {seq}")))
        elif link is not None and _differs(event, link):
            wrong.append(_at(event, _LINK))
        seq, link = event.seq, event.link
    if wrong:
        put_on_record(record, wrong)
        raise _refusal(min(map(_hole, wrong), key=lambda hole: hole.first))
    return found


def event(record: DamageRecord, found: Event | None, evidence: Evidence, *, hashed: bool = False) -> Event | None:
    """One event that holds, or None if there is none; `hashed` as in `page`."""
    if found is not None:
        wrong = _payloads([found], evidence)
        if not hashed:
            wrong += _links([found], evidence, gapless=False)
        if wrong:
            put_on_record(record, wrong)
            raise _refusal(_hole(wrong[0]))
    return found


def require_payload(found: Event) -> Event:
    """An event whose payload, if it has one, has its checksum: for a judgement that compares it with what is given."""
    if found.payload is not None and chain.checksum(found.payload) != found.checksum:
        raise _refusal(_hole(_at(found, _CHECKSUM)))
    return found


# --- judging -------------------------------------------------------------------------------------------------------


def _payloads(events: Sequence[Event], evidence: Evidence) -> list[Problem]:
    sha256 = hashlib.sha256
    wrong = [
        _at(event, _CHECKSUM)
        for event in events
        if event.payload is not None and sha256(event.payload).digest() != event.checksum
    ]
    if gone := [event for event in events if event.payload is None]:
        noted = set(evidence.erased([event.position for event in gone]))
        wrong += [_at(event, _ERASURE) for event in gone if event.position not in noted]
    return wrong


def _links(events: list[Event], evidence: Evidence, *, gapless: bool) -> Iterator[Problem]:
    ends: dict[str, Event] = {}
    begins: list[Event] = []
    for event in events:
        before = ends.get(event.stream)
        ends[event.stream] = event
        if before is None or (event.seq > before.seq + 1 and not gapless):
            begins.append(event)
        elif event.seq != before.seq + 1:
            yield _at(event, Problem("sequence", f"seq {event.seq} follows {before.seq}"))
        elif _differs(event, before.link):
            yield _at(event, _LINK)
    later = [event for event in begins if event.seq > 1]
    known = dict(zip((event.position for event in later), evidence.links_before(later) if later else (), strict=True))
    for event in begins:
        link = chain.GENESIS if event.seq == 1 else known[event.position]
        if link is not None and _differs(event, link):
            yield _at(event, _LINK)


def _differs(event: Event, before: bytes) -> bool:
    try:
        return chain.link(event, before) != event.link
    except UnicodeDecodeError:  # a meta that is no text any more
        return True


def _at(event: Event, problem: Problem) -> Problem:
    return Problem(problem.what, problem.reason, event.position, event.stream, event.seq)


def _hole(problem: Problem) -> Hole:
    reason = f"{problem.what}: {problem.stream} seq {problem.seq}: {problem.reason}"
    return Hole(problem.position, problem.position, reason)


def _refusal(hole: Hole) -> errors.Damaged:
    return errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
