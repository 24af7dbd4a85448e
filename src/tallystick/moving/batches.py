"""Appending plain lines in batches. Each batch is one commit, and a refusal names the line that caused it.

If lines claim a seq, a checksum or a link, the claims are checked before anything is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical, chain, guard, names
from tallystick.event.line import NewEventLine
from tallystick.event.model import Draft, Event, NewEvent
from tallystick.moving.progress import BrokenClaim, ImportStopped, Progress
from tallystick.store import capabilities, expectation
from tallystick.store.commit import Appended, Transaction
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.prepare import Part, Preparer, Request
from tallystick.store.store import Store


class ImportLine(msgspec.Struct, frozen=True):
    """A line to be appended, with its number in the input, and what it claims to become."""

    number: int
    stream: str
    event: NewEvent
    expected: expectation.Expected
    seq: int | None
    checksum: bytes | None
    link: bytes | None

    @classmethod
    def of(cls, given: NewEventLine, number: int) -> ImportLine:
        """The line as it was parsed."""
        expected = given.expected
        if expected is None:
            expected = expectation.ANY
        elif isinstance(expected, str):
            expected = expectation.from_text(expected)
        claims = (given.seq, given.hex_bytes("checksum"), given.hex_bytes("link"))
        return cls(number, given.stream, given.event, expectation.check(expected), *claims)

    @property
    def id(self) -> bytes | None:
        """The id of the event; None if the store is to choose one."""
        return self.event.id if isinstance(self.event.id, bytes) else None

    @property
    def has_claims(self) -> bool:
        """Whether the line says what the event will become."""
        return self.seq is not None or self.checksum is not None or self.link is not None

    @property
    def is_foreign_control(self) -> bool:
        """Whether this is a control fact of the exported store, which is not about this one."""
        return self.has_claims and names.is_reserved(self.stream.partition("/")[0])

    def same_as(self, other: ImportLine) -> bool:
        """Whether both lines have the same content, to the byte: Python finds 1, 1.0 and true equal."""
        return self._content() == other._content()

    def _content(self) -> tuple[Any, ...]:
        event = self.event
        content = canonical.encode({"payload": event.payload, "meta": event.meta or {}})
        given = (event.type, event.version, event.time, event.signature, self.seq, self.checksum, self.link)
        return (self.stream, content, *given)


class Importer:
    """Takes batches of lines into a store."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self.store = store
        self.progress = progress
        self._repeated = 0

    def take(self, lines: Sequence[ImportLine], *, through: int) -> None:
        """Commit the lines, the last of which is line `through` of the input; all or nothing."""
        kept = lines
        try:
            kept = self._without_repeats(lines)
            for batch in self._commits(kept):
                self._commit(batch)
        except BrokenClaim as problem:
            raise self.progress.stopped(problem, first=problem.number, last=problem.number) from problem
        except errors.TallyError as problem:
            raise self._named(problem, kept) from problem
        self.progress.control += sum(line.is_foreign_control for line in lines)
        self.progress.lines = through

    def _without_repeats(self, lines: Sequence[ImportLine]) -> list[ImportLine]:
        """The lines without retries (the same id again) and without control facts of the exported store."""
        kept: list[ImportLine] = []
        by_id: dict[bytes, ImportLine] = {}
        for line in lines:
            if line.is_foreign_control:
                continue
            first = by_id.setdefault(line.id, line) if line.id is not None else line
            if first is line:
                kept.append(line)
            elif not first.same_as(line):
                raise BrokenClaim(line.number, f"line {first.number} has the same id, with other content")
        self._repeated = len(lines) - len(kept) - sum(line.is_foreign_control for line in lines)
        return kept

    def _commits(self, lines: list[ImportLine]) -> Iterator[list[ImportLine]]:
        """All lines as one commit, or if the engine cannot do that, one commit for each run of lines of one stream."""
        if capabilities.MULTI_STREAM in self.store.log.capabilities:
            yield lines
            return
        yield from parts(lines)

    def _commit(self, lines: list[ImportLine]) -> None:
        if any(line.has_claims for line in lines):
            _check_claims(self.store, lines)
        grouped = parts(lines)
        try:
            done = self._append(grouped)
        except errors.DuplicateId:
            grouped = parts(lines, stored=self._stored(lines))
            done = self._append(grouped)
        for part, outcome in zip(grouped, done, strict=True):
            self.progress.skipped += outcome.stored
            self.progress.imported += len(part) - outcome.stored
            _check_link(part[-1], outcome)
        self.progress.skipped += self._repeated
        self._repeated = 0

    def _append(self, grouped: list[list[ImportLine]]) -> list[Appended]:
        if not grouped:
            return []
        return self.store.append_all(
            [Part(part[0].stream, [line.event for line in part], expected(part[0])) for part in grouped]
        )

    def _stored(self, lines: list[ImportLine]) -> set[int]:
        """Numbers of the lines whose ids are stored already."""
        return {line.number for line in lines if line.id is not None and self.store.log.find(line.id) is not None}

    def _named(self, problem: errors.TallyError, lines: Sequence[ImportLine]) -> ImportStopped:
        """The problem with the number of the line that caused it, or with those of the batch if that is unknown."""
        if isinstance(problem, errors.InvalidInput):
            preparer = _preparer(self.store, guarded=True)
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

    def _where_conflicting(
        self, problem: errors.Conflict, lines: Sequence[ImportLine], fitting: list[ImportLine]
    ) -> list[ImportLine]:
        """Of lines with the same expectation, the one that met the conflict."""
        head = self.store.stream_head(problem.stream)
        seq = head.seq if head else 0
        for line in lines:
            if line in fitting and seq == problem.actual:
                return [line]
            seq += line.stream == problem.stream
        return fitting


def parts(lines: Sequence[ImportLine], *, stored: set[int] | frozenset[int] = frozenset()) -> list[list[ImportLine]]:
    """Runs of lines of one stream, in the order of the input. A line with its own expectation begins a run.

    Lines that are already stored are runs of their own: the store takes a retry only at the beginning of a run.
    """
    found: list[list[ImportLine]] = []
    alone = False
    for line in lines:
        joins = found and found[-1][0].stream == line.stream and line.expected == expectation.ANY
        if joins and not alone and line.number not in stored:
            found[-1].append(line)
        else:
            found.append([line])
        alone = line.number in stored
    return found


def expected(line: ImportLine) -> expectation.Expected:
    """What the first line of a run expects. A claimed seq is an expectation too."""
    if line.expected == expectation.ANY and line.seq is not None and line.seq > 0:
        return expectation.check(line.seq - 1)
    return line.expected


def _check_link(line: ImportLine, outcome: Appended) -> None:
    """Check the claim again after the write: a profile may have added to the meta."""
    if line.link is not None and line.link != outcome.link:
        raise BrokenClaim(line.number, f"it was stored with the link {outcome.link.hex()}")


def _fits(line: ImportLine, problem: errors.TallyError) -> bool:
    """Whether a refusal can be about this line."""
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


# --- claims ----------------------------------------------------------------------------------------------------------


def _check_claims(store: Store, lines: Sequence[ImportLine]) -> None:
    """Raise `BrokenClaim` for the first line that would not become what it claims."""
    heads: dict[str, Head] = {}
    for line, draft in zip(lines, _drafts(store, lines), strict=True):
        head = heads.get(line.stream) or store.stream_head(line.stream) or NO_HEAD
        made = Event(*chain.extend(line.stream, [draft], seq=head.seq, position=0, previous=head.link)[0])
        if line.checksum is not None and made.checksum != line.checksum:
            reason = f"its payload has the checksum {made.checksum.hex()}, the line says {line.checksum.hex()}"
            raise BrokenClaim(line.number, reason)
        may_be_stored = line.seq is None or line.seq <= head.seq
        stored = store.log.find(line.id) if line.id is not None and may_be_stored else None
        if stored is not None:
            _compare(line, stored)
        else:
            _compare(line, made)
            heads[line.stream] = Head(made.seq, made.link)


def _drafts(store: Store, lines: Sequence[ImportLine]) -> list[Draft]:
    parts = [Part(line.stream, [line.event]) for line in lines]
    prepared = _preparer(store, guarded=False).prepare([Request(parts)])[0]
    if isinstance(prepared, Transaction):
        return [write.drafts[0] for write in prepared.writes]
    raise prepared


def _preparer(store: Store, *, guarded: bool) -> Preparer:
    """The preparation of this store's appends, without writing. Without the guard where it would warn a second time."""
    chosen = guard.make(store.settings["secrets"]) if guarded else None
    return Preparer(
        profile=store.profile, clock=store.clock, catalog=store.catalog, guard=chosen, condition=store.conditions.of
    )


def _compare(line: ImportLine, made: Event) -> None:
    if line.seq is not None and line.seq != made.seq:
        raise BrokenClaim(line.number, f"it would have seq {made.seq} in {line.stream!r}, the line says {line.seq}")
    if line.link is None:
        return
    if line.id is None or line.event.time is None:
        raise BrokenClaim(line.number, "it has a link, which needs id and time")
    if line.link != made.link:
        raise BrokenClaim(line.number, f"it would have the link {made.link.hex()}, the line says {line.link.hex()}")
