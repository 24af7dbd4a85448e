"""Moving logs: what `tally export`, `tally import` and `tally copy` do, for programs.

An export is NDJSON. Plain, it is one event a line, and importing it appends those events. Whole, it begins and ends
with lines of its own and carries everything that makes a log what it is: control facts, what was pruned and erased,
and snapshots. A whole export that is imported into an empty store gives the same log again: same positions, same
links, same verdict.

Nothing here opens a store.
"""

from __future__ import annotations

from tallystick.event.line import lines
from tallystick.moving.export import must_be_whole, whole
from tallystick.moving.intake import Intake, lines_of
from tallystick.moving.progress import ImportRefused, ImportStopped, Progress

__all__ = ["ImportRefused", "ImportStopped", "Intake", "Progress", "lines", "lines_of", "must_be_whole", "whole"]
