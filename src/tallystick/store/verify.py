"""Verification: every event against its bytes, its neighbours and its claims; and the engine's own structures.

What it cannot find without a witness outside of the store: that the newest events of a log were cut off together
with everything that knows of them.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store.events import EventLog, Problem
from tallystick.store.ledger import NO_HEAD, Head

PROBLEMS_MAX = 10_000
_PAGE = 10_000


class Verification(msgspec.Struct):
    """What was looked at and what was found. `ok` is the answer."""

    events: int = 0
    streams: int = 0
    erased: int = 0
    head: int = 0
    problems: list[Problem] = []
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, problem: Problem) -> None:
        """Note a problem, up to a bound."""
        if len(self.problems) >= PROBLEMS_MAX:
            self.truncated = True
        else:
            self.problems.append(problem)


def verify(log: EventLog, *, progress: Callable[[int], None] = lambda done: None) -> Verification:
    """Verify a whole log: the engine's structures, then the events. `progress` counts events, once for each half."""
    found = Verification(head=log.head())
    for problem in log.check(progress):
        found.add(problem)
    heads: dict[str, Head] = {}
    torn: set[str] | None = None  # streams seen again since the last hole; None while there was no hole
    after = log.floor()
    while after < found.head:
        page = log.read(after=after, until=found.head, limit=_PAGE, over_holes=True)
        for hole in page.holes:
            found.add(Problem("hole", f"positions {hole.first} to {hole.last}: {hole.reason}", hole.first))
            torn = set()
        for event in page.events:
            forgiven = torn is not None and event.stream not in torn
            if torn is not None:
                torn.add(event.stream)
            _event(event, heads.get(event.stream, NO_HEAD), forgiven, found)
            heads[event.stream] = Head(event.seq, event.link)
        found.events += len(page.events)
        progress(found.events)
        if page.through <= after:
            break
        after = page.through
    found.streams = len(heads)
    if torn is None:
        _heads(log, heads, found)
    return found


def _event(event: Event, before: Head, forgiven: bool, found: Verification) -> None:
    """Check one event; `forgiven` means that events of its stream before it may lie in a hole."""

    def wrong(what: str, reason: str) -> None:
        found.add(Problem(what, reason, event.position, event.stream, event.seq))

    if event.payload is None:
        found.erased += 1
    elif chain.checksum(event.payload) != event.checksum:
        wrong("checksum", "the payload does not have its checksum")
    if event.seq != before.seq + 1:
        if forgiven and event.seq > before.seq + 1:
            return
        wrong("sequence", f"seq {event.seq} follows {before.seq}")
        return
    if chain.link(event, before.link) != event.link:
        wrong("link", "the link does not follow from the event and the link before it")


def _heads(log: EventLog, heads: dict[str, Head], found: Verification) -> None:
    """Compare what the log holds with what the engine says of each stream."""
    after = ""
    seen = 0
    while page := log.streams(after=after, limit=_PAGE):
        for info in page:
            seen += 1
            head = heads.get(info.stream)
            if head is None or (head.seq, head.link) != (info.seq, info.link):
                reason = f"the log ends at seq {head.seq if head else 0}, the store says {info.seq}"
                found.add(Problem("head", reason, 0, info.stream, info.seq))
        after = page[-1].stream
    if seen != len(heads):
        found.add(Problem("head", f"the log has {len(heads)} streams, the store lists {seen}"))
