"""The SQL of this engine: one statement per file in `sql/`, named by what it does."""

from __future__ import annotations

from functools import cache
from importlib import resources

from tallystick import errors


@cache
def named(name: str) -> str:
    """The statement in `sql/<name>.sql`."""
    return resources.files(__package__).joinpath("sql", f"{name}.sql").read_text()


def require_stored(given: int, stored: int, what: str) -> None:
    """A trigger can leave rows out without an error. Ours never do."""
    if stored != given:
        reason = f"{given - stored} of {given} {what} were left out: the file has a trigger that does not belong to it"
        raise errors.Damaged(first=0, last=0, reason=reason)
