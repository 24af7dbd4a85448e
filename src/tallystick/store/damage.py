"""Damage on record: the store refuses appends until damage that was found is repaired, refilled or accepted.

A finding in memory is forgotten when its process ends, and a disk that fails only sometimes looks sound at the next
opening. So findings are recorded in the store. While anything is on record, appends fail with `Damaged` in every
process. The record is cleared only after the whole store was verified again, with a control fact (`store/repair.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import msgspec

from tallystick import errors
from tallystick.store import reasons
from tallystick.store.events import Problem
from tallystick.store.page import Hole

KEPT_MAX = 100


class DamageRecord(Protocol):
    """The record of one store. `EventLog.commit` refuses with `refusal` while anything is known."""

    def known(self) -> list[Problem]:
        """The findings that are not settled."""

    def keep(self, problems: Sequence[Problem]) -> None:
        """Put findings on record, durably. A handle that is open for reading can do it too, if the disk allows it."""

    def settling(self, verified: Sequence[Problem]) -> AbstractContextManager[None]:
        """In this block the handle commits although damage is on record. At its end, `verified` is removed from it.

        Findings that were added since stay on record. If the block raises, all stay. Only for `store/repair.py`, which
        has read the record and then verified the store.
        """


class KeptDamage:
    """The record as one list that a subclass loads, stores and removes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_settling = False

    def exists(self) -> bool:
        """Whether anything is on record. It is called before every commit, so it must be cheap."""
        raise NotImplementedError

    def known(self) -> list[Problem]:
        raise NotImplementedError

    def _store(self, problems: list[Problem]) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError

    def _alone(self) -> AbstractContextManager[None]:
        """In this block no other process changes the record."""
        return nullcontext()

    def keep(self, problems: Sequence[Problem]) -> None:
        with self._lock:
            known = self.known()
            if merged(known, problems) != known:
                with self._alone():
                    self._store(merged(self.known(), problems))

    def require_none(self, concerns: Callable[[Problem], bool] = lambda problem: True) -> None:
        """Refuse a commit while damage is on record that concerns it."""
        if self.exists() and not self._is_settling and (known := list(filter(concerns, self.known()))):
            raise refusal(known)

    @contextmanager
    def settling(self, verified: Sequence[Problem]) -> Iterator[None]:
        with self._lock:
            self._is_settling = True
            try:
                yield
                with self._alone():
                    self._forget(verified)
            finally:
                self._is_settling = False

    def _forget(self, verified: Sequence[Problem]) -> None:
        if left := [problem for problem in self.known() if problem not in verified]:
            self._store(left)
        else:
            self._remove()


class MemoryDamage(KeptDamage):
    """A record in memory, for a log in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._problems: list[Problem] = []

    def exists(self) -> bool:
        return bool(self._problems)

    def known(self) -> list[Problem]:
        return list(self._problems)

    def _store(self, problems: list[Problem]) -> None:
        self._problems = problems

    def _remove(self) -> None:
        self._problems = []


def merged(known: Sequence[Problem], found: Sequence[Problem]) -> list[Problem]:
    """The findings on record and the new ones, each once. The record is bounded: the first findings stay."""
    return list(dict.fromkeys([*known, *found]))[:KEPT_MAX]


def refusal(known: Sequence[Problem]) -> errors.Damaged:
    """The error with which an append is refused."""
    first = known[0]
    where = f"{first.stream} seq {first.seq}: " if first.stream else ""
    more = f" (and {len(known) - 1} more)" if len(known) > 1 else ""
    reason = f"{first.what}: {where}{first.reason}{more}; it is on record until `tally doctor --repair` finds all sound"
    return errors.Damaged(first=first.position, last=first.position, reason=reason)


def problem_of(hole: Hole) -> Problem:
    """A damaged range as a finding."""
    return Problem("hole", f"positions {hole.first} to {hole.last}: {hole.reason}", hole.first)


def put_on_record(record: DamageRecord, problems: Sequence[Problem]) -> str:
    """Put findings on record; returns the reason if that is not possible."""
    damage = [problem for problem in problems if problem.what not in reasons.NO_DAMAGE]
    try:
        if damage:
            record.keep(damage)
    except errors.TallyError as problem:
        return problem.message
    return ""


def with_known(found: Sequence[Problem], known: Sequence[Problem]) -> list[Problem]:
    """The new findings, and those on record that were not found again."""
    again = set(found)
    return [*found, *(_on_record(problem) for problem in known if problem not in again)]


def _on_record(problem: Problem) -> Problem:
    return msgspec.structs.replace(problem, reason=f"{problem.reason} (on record: it was found earlier)")
