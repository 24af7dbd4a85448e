"""The runner of migrations: numbered, forward-only steps that create a schema or change it.

Invariant: a step and its number are written in one transaction. A database is therefore always exactly at some step,
even if a migration was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple, Protocol

from tallystick import errors


class Migration(NamedTuple):
    """One step of a schema."""

    number: int
    name: str
    sql: str


class MigratedDatabase(Protocol):
    """The database that is migrated."""

    def version(self) -> int:
        """The number of the last step taken; 0 in a database without a store."""

    def changing(self) -> AbstractContextManager[None]:
        """A transaction. If there is a store, no other process can take a step of it meanwhile."""

    def take(self, step: Migration) -> None:
        """Run a step and record its number."""


@cache
def numbered(package: str, folder: str) -> tuple[Migration, ...]:
    """The steps in the files `NNN_name.sql` of a package's folder, in order of number."""
    found = resources.files(package).joinpath(*folder.split("/")).iterdir()
    files = sorted((file for file in found if file.name.endswith(".sql")), key=lambda file: file.name)
    steps = tuple(Migration(int(file.name[:3]), file.name[4:-4], file.read_text()) for file in files)
    assert all(step.number < following.number for step, following in pairwise(steps))
    return steps


def require_known(found: int, steps: Sequence[Migration], *, path: str) -> None:
    """Refuse a format that is newer than the last step, or so old that no step begins there."""
    latest, oldest = steps[-1].number, steps[0].number - 1
    if found > latest:
        raise errors.NewerFormat(path=path, found=found, known=latest)
    if 0 < found < oldest:
        raise errors.FormatTooOld(path=path, found=found, oldest=oldest)


def migrate(database: MigratedDatabase, steps: Sequence[Migration]) -> list[Migration]:
    """Take the steps that are missing, each in its own transaction. Returns those that were taken by this call."""
    return [step for step in steps if database.version() < step.number and _take(database, step)]


def _take(database: MigratedDatabase, step: Migration) -> bool:
    with database.changing():
        if database.version() >= step.number:  # another process took it while this one waited
            return False
        database.take(step)
        return True
