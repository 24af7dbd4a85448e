"""Checks every event that leaves an engine: its payload against its checksum, and its link against the event before.

An engine calls `page`, `stream` or `event` with the events that it is about to return, and tells what it knows of
events that it does not return (`Evidence`). A wrong event goes on record, so that appends are refused from then on, and
is treated like any other damaged range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import reasons
from tallystick.store.damage import DamageRecord, put_on_record
from tallystick.store.events import Problem
from tallystick.store.maintenance import Cut, before_cut
from tallystick.store.page import Hole, Page

NOTHING = b""
"""Instead of the link of an event that should exist and is missing."""


class Evidence(Protocol):
    """What an engine knows of events that it does not return."""

    def links_before(self, events: Sequence[Event]) -> Sequence[bytes | None]:
        """For each event the link of the one before it in its stream; None if that is not visible.

        If nothing is hidden, and there is neither that event nor a cut, it is `NOTHING`, and no link follows from that.
        """

    def erased(self, positions: Sequence[int]) -> Collection[int]:
        """Those of the positions whose erasure is noted."""


def page(
    record: DamageRecord,
    found: Page,
    evidence: Evidence,
    *,
    after: int,
    over_holes: bool = False,
    gapless: bool = False,
) -> Page:
    """A page of sound events. It ends before the first wrong event, and is refused if it starts with one.

    With `over_holes` wrong events are left out and listed as holes. `gapless` means that nothing was filtered out, so
    the seqs of each stream have no gaps.
    """
    wrong = _payloads(found.events, evidence) + _links(found.events, evidence, gapless=gapless)
    return _without(record, found, wrong, after=after, over_holes=over_holes)


def hashed_page(
    record: DamageRecord,
    found: Page,
    evidence: Evidence,
    *,
    after: int,
    doubtful: Sequence[Event],
    over_holes: bool = False,
) -> Page:
    """As `page`, for a medium that has a hash over all fields of an event, which was compared already.

    Then only `stream` checks links, because that costs as much as everything else together. The payloads of events that
    are not `doubtful` were checked before, when they had the same hash.
    """
    return _without(record, found, _payloads(doubtful, evidence), after=after, over_holes=over_holes)


def _without(record: DamageRecord, found: Page, wrong: list[Problem], *, after: int, over_holes: bool) -> Page:
    """The rest of a page without its wrong events."""
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
    """The events of one stream after the seq `after`. They are refused as a whole if one of them is wrong.

    The event at `after` may be the first of those given, and is not returned. Unless `gapless`, some may be hidden.
    """
    found, link = list(events), None
    if found and found[0].seq == after:
        link = found.pop(0).link
    elif found:
        link = link_before(found[0], evidence, after=after)
    refuse(record, follow(found, link, evidence, after=after, gapless=gapless))
    return found


def link_before(first: Event, evidence: Evidence, *, after: int) -> bytes | None:
    """The link before the first event after the seq `after`; None if it is not visible, or the seq does not follow."""
    if first.seq != after + 1:
        return None
    return chain.GENESIS if after == 0 else evidence.links_before([first])[0]


def follow(
    found: Sequence[Event], link: bytes | None, evidence: Evidence, *, after: int, gapless: bool = True
) -> list[Problem]:
    """What is wrong with events of one stream that follow the seq `after`, whose link is `link`."""
    wrong = _payloads(found, evidence)
    pairs: list[tuple[Event, bytes]] = []
    seq = after
    for event in found:
        if event.seq != seq + 1:
            if gapless or event.seq <= seq:
                wrong.append(reasons.SEQUENCE.at(event, seq=event.seq, before=seq))
        elif link is not None:
            pairs.append((event, link))
        seq, link = event.seq, event.link
    return wrong + [reasons.LINK.at(event) for event in chain.broken(pairs)]


def refuse(record: DamageRecord, wrong: Sequence[Problem]) -> None:
    """Put problems on record, and raise `Damaged` for the first of them; do nothing if there are none."""
    if wrong:
        put_on_record(record, wrong)
        raise _refusal(min(map(_hole, wrong), key=lambda hole: hole.first))


def event(record: DamageRecord, found: Event | None, evidence: Evidence, *, hashed: bool = False) -> Event | None:
    """One sound event, or None; `hashed`: its links are not checked, as in `hashed_page`."""
    if found is not None:
        wrong = _payloads([found], evidence)
        if not hashed:
            wrong += _links([found], evidence, gapless=False)
        if wrong:
            put_on_record(record, wrong)
            raise _refusal(_hole(wrong[0]))
    return found


def predecessor_links(
    events: Sequence[Event], links: Sequence[bytes | None], cut: Callable[[str], Cut | None]
) -> list[bytes | None]:
    """The links before some events, as far as they were found, if no event that could be before them is hidden.

    An event that was pruned itself since it was read has no link to compare. `cut` is called after the links were
    looked up.
    """
    return [
        NOTHING if link is None and not _is_pruned(event, cut) else link
        for event, link in zip(events, links, strict=True)
    ]


def _is_pruned(event: Event, cut: Callable[[str], Cut | None]) -> bool:
    return event.seq <= before_cut(cut(event.stream))[0]


def require_payload(found: Event) -> Event:
    """The event, if its payload has its checksum: for a judgement that compares the event with a retry."""
    if found.payload is not None and chain.checksum(found.payload) != found.checksum:
        raise _refusal(_hole(reasons.CHECKSUM.at(found)))
    return found


# --- judging -------------------------------------------------------------------------------------------------------


def _payloads(events: Sequence[Event], evidence: Evidence) -> list[Problem]:
    sha256 = hashlib.sha256
    wrong = [
        reasons.CHECKSUM.at(event)
        for event in events
        if event.payload is not None and sha256(event.payload).digest() != event.checksum
    ]
    if gone := [event for event in events if event.payload is None]:
        noted = set(evidence.erased([event.position for event in gone]))
        wrong += [reasons.ERASURE_NOT_NOTED.at(event) for event in gone if event.position not in noted]
    return wrong


def _links(events: list[Event], evidence: Evidence, *, gapless: bool) -> list[Problem]:
    ends: dict[str, tuple[int, bytes]] = {}
    begins: list[Event] = []
    pairs: list[tuple[Event, bytes]] = []
    wrong: list[Problem] = []
    for event in events:
        stream, seq = event.stream, event.seq
        before = ends.get(stream)
        ends[stream] = (seq, event.link)
        if before is None or (seq > before[0] + 1 and not gapless):
            begins.append(event)
        elif seq != before[0] + 1:
            wrong.append(reasons.SEQUENCE.at(event, seq=seq, before=before[0]))
        else:
            pairs.append((event, before[1]))
    wrong += [reasons.FIRST_SEQ.at(event) for event in begins if event.seq < 1]
    pairs += [(event, chain.GENESIS) for event in begins if event.seq == 1]
    later = [event for event in begins if event.seq > 1]
    links = evidence.links_before(later) if later else ()
    pairs += [(event, link) for event, link in zip(later, links, strict=True) if link is not None]
    return wrong + [reasons.LINK.at(event) for event in chain.broken(pairs)]


def _hole(problem: Problem) -> Hole:
    reason = f"{problem.what}: {problem.stream} seq {problem.seq}: {problem.reason}"
    return Hole(problem.position, problem.position, reason)


def _refusal(hole: Hole) -> errors.Damaged:
    return errors.Damaged(first=hole.first, last=hole.last, reason=hole.reason)
