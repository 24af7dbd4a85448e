"""The errors of the SQLite driver as errors of this library. No other module interprets a driver's error.

An error of a write falls into one of three kinds: nothing was written and the connection is good (busy, full); the
tables contradict the commit; or the outcome is unknown, and the connection must not be used again (`poisons`).
"""

from __future__ import annotations

import sqlite3

from tallystick import errors

_PRIMARY = 0xFF
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SOUND = (*_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_AUTH)


def code_of(problem: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 if the error comes from the Python module itself."""
    return getattr(problem, "sqlite_errorcode", 0) & _PRIMARY


def is_busy(problem: sqlite3.Error) -> bool:
    """Whether another connection was in the way."""
    return code_of(problem) in _BUSY


def is_damage(problem: sqlite3.Error) -> bool:
    """Whether the bytes of the database are not what SQLite wrote. Text that is not UTF-8 has no code."""
    code = code_of(problem)
    return code in _DAMAGED or (code == 0 and isinstance(problem, sqlite3.OperationalError))


def damage(reason: str) -> sqlite3.DatabaseError:
    """The error by which SQLite reports damage, for damage that the driver cannot report."""
    problem = sqlite3.DatabaseError(reason)
    problem.sqlite_errorcode, problem.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return problem


def poisons(problem: sqlite3.Error) -> bool:
    """Whether the outcome of the write is unknown. SQLite itself would carry on after a failed fsync; we must not."""
    return code_of(problem) not in _SOUND


def of_write(
    problem: sqlite3.Error, *, path: str, operation: str, waited_ms: int, needed_bytes: int = 0
) -> errors.TallyError:
    """The error of a write, whose transaction is being rolled back."""
    code = code_of(problem)
    if code in _BUSY:
        return errors.Busy(waited_ms=waited_ms)
    if code == sqlite3.SQLITE_FULL:
        return errors.NoSpace(needed=needed_bytes, path=path)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return errors.Damaged(first=0, last=0, reason=f"the tables contradict the commit ({problem})")
    return errors.StoreFailed(operation=operation, reason=_reason(problem))


def of_read(problem: sqlite3.Error, *, path: str, waited_ms: int) -> errors.TallyError:
    """The error of a read, or of opening."""
    code = code_of(problem)
    if code in _BUSY:
        return errors.Busy(waited_ms=waited_ms)
    if is_damage(problem):
        return errors.Damaged(first=0, last=0, reason=_reason(problem))
    if code == 0 and isinstance(problem, sqlite3.ProgrammingError):
        return errors.StoreClosed()  # another thread closed the handle while this one was reading
    return errors.ReadFailed(path=path, reason=_reason(problem))


def _reason(problem: sqlite3.Error) -> str:
    name = getattr(problem, "sqlite_errorname", "")
    return f"{problem} ({name})" if name else str(problem)
