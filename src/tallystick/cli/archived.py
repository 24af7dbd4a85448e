"""`--archive` where history is about to go: what the archive holds can be had again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallystick import errors
from tallystick.cli import places

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.state.archive import Archive

VARIABLE = "TALLY_ARCHIVE"

option = click.option(
    "--archive",
    "archive_directory",
    metavar="DIR",
    envvar=VARIABLE,
    type=places.PLACE,
    help=f"The archive of this log; {VARIABLE} names it too. What it holds needs no acceptance.",
)


def covering(directory: str | None, store: Store) -> Archive | None:
    """The archive, if one was named, ready to be asked what it holds."""
    if directory is None:
        return None
    try:
        from tallystick.pipeline.archive.coverage import ArchiveCoverage
    except ModuleNotFoundError as missing:
        raise errors.SparkMissing(library=missing.name or "pyarrow") from missing
    return ArchiveCoverage(directory, store)
