"""Appending lines: in batches, each batch one commit, and what to say when one is refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from tallystick import errors
from tallystick.moving import claims
from tallystick.moving.entry import BrokenClaim, Line
from tallystick.moving.progress import ImportStopped, Progress
from tallystick.store import capabilities, expectation
from tallystick.store.commit import Appended
from tallystick.store.prepare import Part, Request
from tallystick.store.store import Store


class Importer:
    """Takes batches of lines into a store."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self.store = store
        self.progress = progress
        self._repeated = 0

    def take(self, lines: Sequence[Line], *, through: int) -> None:
        """Commit the lines, the last of which is line `through` of the file; all or nothing."""
        try:
            lines_kept = self._without_repeats(lines)
            for batch in self._commits(lines_kept):
                self._commit(batch)
        except BrokenClaim as problem:
            raise self.progress.stopped(problem, first=problem.line.number, last=problem.line.number) from problem
        except errors.TallyError as problem:
            raise self._named(problem, lines_kept) from problem
        self.progress.control += sum(line.is_foreign_control for line in lines)
        self.progress.lines = through

    def _without_repeats(self, lines: Sequence[Line]) -> list[Line]:
        """The lines without repeats by id, which are retries, and without another store's control facts."""
        kept: list[Line] = []
        by_id: dict[bytes, Line] = {}
        for line in lines:
            if line.is_foreign_control:
                continue
            first = by_id.setdefault(line.id, line) if line.id is not None else line
            if first is line:
                kept.append(line)
            elif not first.same_as(line):
                raise BrokenClaim(line, f"its id stands in line {first.number} too, with other content")
        self._repeated = len(lines) - len(kept) - sum(line.is_foreign_control for line in lines)
        return kept

    def _commits(self, lines: list[Line]) -> Iterator[list[Line]]:
        """All lines as one commit; where the engine cannot do that, a commit for each run of lines of one stream."""
        if capabilities.MULTI_STREAM in self.store.log.capabilities:
            yield lines
            return
        yield from parts(lines)

    def _commit(self, lines: list[Line]) -> None:
        if any(line.claims for line in lines):
            claims.check(self.store, lines)
        grouped = parts(lines)
        try:
            done = self._append(grouped)
        except errors.DuplicateId:
            grouped = parts(lines, apart=self._stored(lines))
            done = self._append(grouped)
        for part, outcome in zip(grouped, done, strict=True):
            self.progress.skipped += outcome.stored
            self.progress.imported += len(part) - outcome.stored
            _check_link(part[-1], outcome)
        self.progress.skipped += self._repeated
        self._repeated = 0

    def _append(self, grouped: list[list[Line]]) -> list[Appended]:
        if not grouped:
            return []
        return self.store.append_all(
            [Part(part[0].stream, [line.event for line in part], expected(part[0])) for part in grouped]
        )

    def _stored(self, lines: list[Line]) -> set[int]:
        """Numbers of the lines whose ids are stored already."""
        return {line.number for line in lines if line.id is not None and self.store.log.find(line.id) is not None}

    def _named(self, problem: errors.TallyError, lines: Sequence[Line]) -> ImportStopped:
        """The problem with the number of the line that caused it, or of the batch's lines if it is no single one."""
        if isinstance(problem, errors.InvalidInput):
            preparer = claims.preparer(self.store, guarded=True)
            for line in lines:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outcome = preparer.prepare([Request([Part(line.stream, [line.event], line.expected)])])[0]
                if isinstance(outcome, errors.TallyError):
                    return self.progress.stopped(outcome, first=line.number, last=line.number)
        fitting = [line for line in lines if _fits(line, problem)]
        if isinstance(problem, errors.Conflict) and len(fitting) > 1:
            fitting = self._where_conflicting(problem, lines, fitting)
        first, last = (fitting[0], fitting[0]) if fitting else (lines[0], lines[-1])
        return self.progress.stopped(problem, first=first.number, last=last.number)

    def _where_conflicting(self, problem: errors.Conflict, lines: Sequence[Line], fitting: list[Line]) -> list[Line]:
        """Of lines with the same expectation, the one at which the stream had moved on."""
        head = self.store.stream_head(problem.stream)
        seq = head.seq if head else 0
        for line in lines:
            if line in fitting and seq == problem.actual:
                return [line]
            seq += line.stream == problem.stream
        return fitting


def parts(lines: Sequence[Line], *, apart: set[int] | frozenset[int] = frozenset()) -> list[list[Line]]:
    """Runs of lines of one stream, in the order of the file. A line with an own expectation begins a run.

    Lines `apart` stand alone: the store takes a retry only at the beginning of a run.
    """
    found: list[list[Line]] = []
    alone = False
    for line in lines:
        joins = found and found[-1][0].stream == line.stream and line.expected == expectation.ANY
        if joins and not alone and line.number not in apart:
            found[-1].append(line)
        else:
            found.append([line])
        alone = line.number in apart
    return found


def expected(line: Line) -> expectation.Expected:
    """What the first line of a run expects; a claimed seq is an expectation too."""
    if line.expected == expectation.ANY and line.seq is not None and line.seq > 0:
        return expectation.check(line.seq - 1)
    return line.expected


def _check_link(line: Line, outcome: Appended) -> None:
    """The claim again, after the write: a profile may have added to the meta."""
    if line.link is not None and line.link != outcome.link:
        raise BrokenClaim(line, f"it was stored with the link {outcome.link.hex()}")


def _fits(line: Line, problem: errors.TallyError) -> bool:
    """Whether this is the line that a refusal speaks of."""
    meta = line.event.meta or {}
    match problem:
        case errors.Conflict():
            return line.stream == problem.stream and expected(line) == problem.expected
        case errors.OrgMismatch():
            return line.stream == problem.stream and meta.get("org") == problem.given
        case errors.SourceRepeated():
            return meta.get("source") == problem.source and meta.get("source_seq") in (None, problem.given)
        case errors.DuplicateId():
            return line.id is not None and line.id.hex() == problem.id.replace("-", "")
        case errors.LeaseHeld() | errors.LeaseLost():
            return line.stream == problem.stream
    return False
