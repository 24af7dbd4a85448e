"""Frames whose events were checked before: they are not hashed again while the frame has the same bytes.

Whenever a frame is read, its SHA-256 is computed and compared. If its payloads, or its events of one stream, were
checked under the same SHA-256 before, they are the same bytes. An attacker who changes an event and hashes the frame
again makes another frame, which is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

import msgspec

from tallystick.engines.files.frame import Body
from tallystick.event.model import Event
from tallystick.store import checked
from tallystick.store.events import Problem

FRAMES_MAX = 1 << 15


class FrameEvents(msgspec.Struct, frozen=True):
    """Events that an answer takes from one frame, in order."""

    body: Body
    events: list[Event]

    def is_all_of(self, those: Sequence[Event]) -> bool:
        """Whether these are exactly those events of the frame, as they are stored, with none erased."""
        alike = len(self.events) == len(those) and all(map(is_, self.events, those))
        return alike and all(event.payload is not None for event in those)


class CheckedFrames:
    """Frames whose payloads hold, and those whose events of one stream hold with their links. Bounded in number."""

    def __init__(self) -> None:
        self._payloads: set[bytes] = set()
        self._streams: dict[tuple[bytes, str], tuple[int, bytes]] = {}

    def doubtful(self, parts: Iterable[FrameEvents]) -> list[Event]:
        """The events whose payloads are still to be checked."""
        return [event for part in parts if part.body.digest not in self._payloads for event in part.events]

    def note_payloads(self, parts: Iterable[FrameEvents]) -> None:
        """Remember that the payloads of these parts have their checksums."""
        for part in parts:
            if part.body.digest not in self._payloads and part.is_all_of(part.body.events):
                if len(self._payloads) >= FRAMES_MAX:
                    self._payloads.clear()
                self._payloads.add(part.body.digest)

    def problems(
        self, parts: Iterable[FrameEvents], link: bytes | None, evidence: checked.Evidence, *, after: int
    ) -> list[Problem]:
        """What is wrong with events of one stream after the seq `after`, whose link is `link`."""
        wrong: list[Problem] = []
        seq = after
        for part in parts:
            if not self._follows(part, link, after=seq):
                found = checked.follow(part.events, link, evidence, after=seq)
                if link is not None and not found:
                    self._note_stream(part, link)
                wrong += found
            seq, link = part.events[-1].seq, part.events[-1].link
        return wrong

    def _follows(self, part: FrameEvents, link: bytes | None, *, after: int) -> bool:
        """Whether this part, or a longer one that contains it, was found to follow this link before."""
        events = part.events
        known = self._streams.get((part.body.digest, events[0].stream))
        if known is None or (events[0].seq, events[-1].seq) != (after + 1, after + len(events)):
            return False
        first, before = known
        return events[0].seq > first or link == before

    def _note_stream(self, part: FrameEvents, link: bytes) -> None:
        first = part.events[0]
        if part.is_all_of([event for event in part.body.events if event.stream == first.stream]):
            if len(self._streams) >= FRAMES_MAX:
                self._streams.clear()
            self._streams[part.body.digest, first.stream] = (first.seq, link)
