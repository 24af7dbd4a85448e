"""Writing damaged segments again: valid frames as they are, and each gap with the frames that a plan has for it.

The damaged files are copied to quarantine first, whole. A damaged current.log is sealed in this way, and a new one
begun. Each segment is whole before it takes its name, so a crash leaves some of them replaced and the rest as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from tallystick.engines.files import quarantine, rewrite, segment
from tallystick.engines.files.damage import Gap, Run, SurveyedSegment
from tallystick.engines.files.donor_events import ClaimsFilter
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.rewrite import FrameDraft, KeepAll, Rewriter
from tallystick.engines.files.segments import Segment, following, org_in
from tallystick.store.claims import Claims
from tallystick.store.filesystem import replace_file
from tallystick.store.page import Hole
from tallystick.store.refill import Refilled

UNKNOWN_GENERATION = 1 << 16  # of a segment whose header is gone: higher than it can have been


class GapFill(Protocol):
    """What is written into gaps. `is_copy`: nothing that was there is missing."""

    is_copy: bool

    def frames(self, gap: Gap, *, recorded: int) -> Iterator[FrameDraft]:
        """The frames for one gap."""


class RepairPlan(Protocol):
    """The log as it should be: its segments, what control facts claim, and what fills the gaps."""

    parts: list[SurveyedSegment]
    claims: Claims
    source: str

    @property
    def fill(self) -> GapFill: ...


class Replacement:
    """Replaces damaged segments in order, each with a new generation."""

    def __init__(self, handles: Handles, plan: RepairPlan, clock: Callable[[], int]) -> None:
        self._handles = handles
        self._plan = plan
        self._clock = clock
        self.segments: list[Segment] = []
        self._rewriter = Rewriter(handles)
        self._made: list[str] = []
        self._done: list[str] = []
        self.kept: dict[str, str] = {}
        self._events = 0

    def run(self, headless: list[str]) -> Refilled:
        """Write all of them. Files without a header that could not be used are moved to quarantine."""
        for part in self._plan.parts:
            if part.is_damaged:
                self.segments.append(self._write(part))
            else:
                assert part.item is not None
                self.segments.append(part.item)
        if (
            self.segments[-1].header.ending is not None
        ):  # the last segment was replaced by a sealed one: begin the next one
            self._begin()
        for name in headless:
            if name not in self.kept:
                self._done.append(quarantine.move(self._handles, name, time_ns=self._clock()))
        gaps = [gap for part in self._plan.parts for gap in part.gaps]
        ranges = tuple(Hole(gap.first, gap.next - 1, "refilled") for gap in gaps if gap.next > gap.first)
        return Refilled(self._plan.source, ranges, self._events, tuple(self._made), tuple(self._done))

    def _begin(self) -> None:
        files, directory = self._handles.files, self._handles.directory
        if files.exists(f"{directory}/{segment.CURRENT}"):
            self._keep(segment.CURRENT)
        begun = following(self.segments[-1], self._handles, clock=self._clock)
        replace_file(files, directory, segment.CURRENT, segment.encode(begun.header))
        self._done.append(f"began a new current.log after {self.segments[-1].name}")

    def _keep(self, name: str) -> None:
        """Copy a damaged file to quarantine, once."""
        if name not in self.kept:
            kept = self.kept[name] = quarantine.copy(
                self._handles.files, self._handles.directory, name, time_ns=self._clock()
            )
            self._done.append(f"kept the damaged {name} as {kept}")

    def _write(self, part: SurveyedSegment) -> Segment:
        files, directory = self._handles.files, self._handles.directory
        if part.name:
            self._keep(part.name)
        name = part.name
        if name in ("", segment.CURRENT):
            taken = {*files.list(directory), *(f"{name[:-4]}.log" for name in files.list(f"{directory}/index"))}
            name = segment.sealed_name(taken, time_ns=self._clock())
        header = msgspec.structs.replace(part.header, generation=UNKNOWN_GENERATION, ending=None)
        encoding = segment.PLAIN
        if part.item is not None:
            header = rewrite.next_generation(part.header)
            encoding = rewrite.encoding_of(part.header)
        before = functools.partial(org_in, list(self.segments))
        fresh = self._rewriter.write(name, header, self._pieces(part), before, encoding=encoding)
        self._made.append(name)
        return fresh

    def _pieces(self, part: SurveyedSegment) -> Iterator[FrameDraft]:
        keep = ClaimsFilter(self._plan.claims)
        recorded = part.header.created
        for piece in part.left:
            if isinstance(piece, Run):
                for frame, body in part.frames(piece):
                    recorded = body.recorded
                    yield rewrite.kept_frame(frame, body, KeepAll())
                continue
            for draft in self._plan.fill.frames(piece, recorded=recorded):
                self._events += len(draft.events)
                yield keep.kept(draft)
            if piece.next == piece.first:
                self._done.append(
                    f"the bytes lost before position {piece.first} held no event: a lease or a command is lost"
                )
            elif not self._plan.fill.is_copy:
                lost = "leases and records of commands are not in it"
                self._done.append(f"positions {piece.first} to {piece.next - 1} come from {self._plan.source}: {lost}")
