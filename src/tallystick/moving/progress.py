"""How far an import has come, and the errors that say where it stopped."""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.moving.entry import BrokenClaim


class ImportStopped(errors.TallyError):
    """The store failed during an import. Everything before the batch is stored."""

    template = "{where}: {reason}"
    advice = (
        "{hint}Stored before that: {imported} events (and {skipped} that were there already), up to line {last_line}."
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
    """A line was refused. Everything before its batch is stored, nothing of the batch is."""

    exit_status = 1


class Progress(msgspec.Struct):
    """How far an import has come."""

    imported: int = 0
    skipped: int = 0
    control: int = 0
    lines: int = 0
    pruned: int = 0
    snapshots: int = 0
    snapshots_left_out: int = 0
    whole: bool = False
    appended_because: str = ""

    def stopped(self, problem: Exception, *, first: int, last: int) -> ImportStopped:
        """The error for lines `first` to `last` of the file."""
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
