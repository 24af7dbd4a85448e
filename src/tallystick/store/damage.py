"""Damage on record: what was found damaged stays refused until it is repaired, refilled or accepted.

A finding that only its finder saw is forgotten with the process, and a disk that fails now and then looks sound at the
next opening. So findings go on record in the store itself. While anything is on record, appends are refused by name,
in every process. The record is cleared only after the whole store was verified again, with a control fact that says so
(`store/repair.py`).
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
        """What was found damaged and is not settled."""

    def keep(self, problems: Sequence[Problem]) -> None:
        """Put findings on record, durably. A handle that is open for reading can do it too, where the place allows."""

    def settling(self, verified: Sequence[Problem]) -> AbstractContextManager[None]:
        """Inside it this handle commits although something is on record; at its end `verified` is off the record.

        What was found since stays on record. If the block raises, all of it stays. For `store/repair.py`, which has
        verified the store, and read what was on record, before.
        """


class KeptDamage:
    """The record as one list, which a subclass loads, stores and removes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_settling = False

    def exists(self) -> bool:
        """Whether anything is on record. Asked before every commit, so it must be cheap."""
        raise NotImplementedError

    def known(self) -> list[Problem]:
        raise NotImplementedError

    def _store(self, problems: list[Problem]) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError

    def _alone(self) -> AbstractContextManager[None]:
        """Inside it no other process changes the record."""
        return nullcontext()

    def keep(self, problems: Sequence[Problem]) -> None:
        with self._lock:
            known = self.known()
            if merged(known, problems) != known:
                with self._alone():
                    self._store(merged(self.known(), problems))

    def require_none(self, concerns: Callable[[Problem], bool] = lambda problem: True) -> None:
        """Refuse a commit that something on record concerns."""
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
    """A record that ends with its process, as the log does that it is about."""

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
    """What is on record and what was found, each once. The record is bounded: what was found first stays."""
    return list(dict.fromkeys([*known, *found]))[:KEPT_MAX]


def refusal(known: Sequence[Problem]) -> errors.Damaged:
    """Why nothing is appended."""
    first = known[0]
    where = f"{first.stream} seq {first.seq}: " if first.stream else ""
    more = f" (and {len(known) - 1} more)" if len(known) > 1 else ""
    reason = f"{first.what}: {where}{first.reason}{more}; it is on record until `tally doctor --repair` finds all sound"
    return errors.Damaged(first=first.position, last=first.position, reason=reason)


def problem_of(hole: Hole) -> Problem:
    """A damaged range as a finding."""
    return Problem("hole", f"positions {hole.first} to {hole.last}: {hole.reason}", hole.first)


def put_on_record(record: DamageRecord, problems: Sequence[Problem]) -> str:
    """Keep what was found; says why not, if it could not be kept."""
    damage = [problem for problem in problems if problem.what != reasons.MOVE]  # which only has to be continued
    try:
        if damage:
            record.keep(damage)
    except errors.TallyError as problem:
        return problem.message
    return ""


def with_known(found: Sequence[Problem], known: Sequence[Problem]) -> list[Problem]:
    """What was found now, and what is on record and was not found again."""
    again = set(found)
    return [*found, *(_on_record(problem) for problem in known if problem not in again)]


def _on_record(problem: Problem) -> Problem:
    return msgspec.structs.replace(problem, reason=f"{problem.reason} (on record: it was found earlier)")
