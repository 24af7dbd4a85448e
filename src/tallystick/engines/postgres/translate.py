"""PostgreSQL's errors as ours, once, at the edge of the engine."""

from __future__ import annotations

import psycopg
import psycopg_pool

from tallystick import errors

LOST = (psycopg.OperationalError, psycopg.InterfaceError)
AGAIN = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.OutOfMemory,  # no room for more locks just now
    psycopg.errors.UniqueViolation,  # another session was just writing this id: the next attempt finds it
)


REFUSED = ("22", "23", "54")  # classes of SQLSTATE: the values themselves are wrong, whatever came with them
REFUSED_BY_TRIGGER, REFUSED_BY_FUNCTION, DAMAGE_ON_RECORD = "TL403", "TL409", "TL500"
OF_OURS = (REFUSED_BY_TRIGGER, REFUSED_BY_FUNCTION)


def is_refused(problem: BaseException) -> bool:
    """Whether the database refuses the values themselves, so that another commit may pass."""
    state = getattr(problem, "sqlstate", None) or ""
    return state in OF_OURS or (state[:2] in REFUSED and not isinstance(problem, AGAIN))


def is_lost(problem: BaseException) -> bool:
    """Whether the connection is lost, so that nobody knows what the server did last."""
    if isinstance(problem, psycopg_pool.PoolTimeout):
        return False  # nothing was sent
    if isinstance(problem, psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown):
        return True
    return isinstance(problem, LOST) and getattr(problem, "sqlstate", None) is None


def of(problem: psycopg.Error, *, url: str, waited_ms: int) -> errors.TallyError:
    """The error that a caller gets."""
    message = problem.diag.message_primary or str(problem)  # without the context, which is inside of our functions
    reason = " ".join(message.split()) or type(problem).__name__
    if isinstance(problem, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
        return errors.Busy(waited_ms=waited_ms)
    if isinstance(problem, psycopg.errors.DiskFull):
        return errors.NoSpace(needed=0, path=url)
    if is_refused(problem) and problem.sqlstate not in OF_OURS:
        # The text may name an index, or quote what others stored.
        return errors.InvalidInput(reason=f"the database refuses it (SQLSTATE {problem.sqlstate})")
    if isinstance(problem, psycopg.errors.InvalidCatalogName):
        return errors.StoreNotFound(url=url)
    if isinstance(problem, psycopg.errors.InsufficientPrivilege):
        return errors.NotPermitted(url=url, reason=reason)
    if isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        return errors.NotReachable(url=url, reason=reason)
    return errors.StoreFailed(operation="a statement", reason=reason)
