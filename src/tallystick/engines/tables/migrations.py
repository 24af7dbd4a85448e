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


class Format:
    """The formats of an engine's stores: the steps in its `sql/steps/` lead from the oldest to the latest."""

    def __init__(self, package: str) -> None:
        self._package = package

    def steps(self) -> tuple[Migration, ...]:
        """The steps for stores that exist."""
        return numbered(self._package, "sql/steps")

    def latest(self) -> int:
        """The number of the format that this version writes."""
        return self.steps()[-1].number

    def oldest(self) -> int:
        """The number of the oldest format that this version can bring up to date."""
        return self.steps()[0].number - 1

    def require_known(self, found: int, *, path: str) -> None:
        """Refuse a format that is newer than this version, or so old that it cannot be migrated."""
        if found > self.latest():
            raise errors.NewerFormat(path=path, found=found, known=self.latest())
        if 0 < found < self.oldest():
            raise errors.FormatTooOld(path=path, found=found, oldest=self.oldest())


def migrate(database: MigratedDatabase, steps: Sequence[Migration]) -> list[Migration]:
    """Take the steps that are missing, each in its own transaction. Returns those that were taken by this call."""
    return [step for step in steps if database.version() < step.number and _take(database, step)]


def _take(database: MigratedDatabase, step: Migration) -> bool:
    with database.changing():
        if database.version() >= step.number:  # another process took it while this one waited
            return False
        database.take(step)
        return True
