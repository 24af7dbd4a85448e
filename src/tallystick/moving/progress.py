"""How far an import has come, and the errors that name the line where it stopped."""

from __future__ import annotations

import msgspec

from tallystick import errors


class BrokenClaim(Exception):
    """A line would not become what it claims."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


class ImportStopped(errors.TallyError):
    """The store failed during an import. Everything before this batch is stored."""

    template = "{where}: {reason}"
    advice = (
        "{hint}Stored before that: {imported} events, and {skipped} that were already there, up to line {last_line}."
    )
    where: str
    line: int
    cause: str
    reason: str
    hint: str
    imported: int
    skipped: int
    last_line: int


class ImportRefused(ImportStopped):
    """A line was refused. Everything before its batch is stored, and nothing of the batch."""

    exit_status = 1


class Progress(msgspec.Struct):
    """How far an import has come.

    - `imported`: events that were written; `skipped`: events that were already stored.
    - `control`: control facts of the exported store, which were left out.
    - `pruned`, `snapshots`: what was taken over of a whole export; `snapshots_left_out`: the snapshots that were not.
    - `lines`, `bytes`: how much of the input was read and stored.
    - `whole`: the input is a whole export; `appended_because`: why only its events were appended, as new ones.
    """

    imported: int = 0
    skipped: int = 0
    control: int = 0
    lines: int = 0
    bytes: int = 0
    pruned: int = 0
    snapshots: int = 0
    snapshots_left_out: int = 0
    whole: bool = False
    appended_because: str = ""

    def stopped(self, problem: Exception, *, first: int, last: int) -> ImportStopped:
        """The error for lines `first` to `last` of the input."""
        known = problem if isinstance(problem, errors.TallyError) else None
        reason = problem.reason if isinstance(problem, BrokenClaim) else known.message if known else str(problem)
        hint = known.next_step if known else "Lines without seq, checksum and link are appended as new events."
        kind = ImportStopped if isinstance(problem, errors.Unavailable) else ImportRefused
        return kind(
            where=f"line {first}" if first == last else f"lines {first} to {last}",
            line=first,
            cause=type(problem).__name__,
            reason=reason,
            hint=f"{hint} " if hint else "",
            imported=self.imported,
            skipped=self.skipped,
            last_line=self.lines,
        )
