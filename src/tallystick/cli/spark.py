"""What the jobs on Spark share on the command line: the session, its bar, the options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tallystick import errors
from tallystick.cli import progress

master = click.option(
    "--master",
    metavar="M",
    default="local[*]",
    show_default=True,
    help="Where Spark runs: local[N] or spark://HOST:PORT.",
)
memory = click.option("--memory", metavar="SIZE", default="2g", show_default=True, help="Memory of the driver's JVM.")
archive = click.option(
    "--archive",
    "archive_directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The archive of this log: history comes from there as far as it goes.",
)


@contextmanager
def session(where: str, *, memory: str = "2g") -> Iterator[Any]:
    """A session for one command. One that was running before is used and left alone."""
    try:
        from tallystick import pipeline
    except ModuleNotFoundError as missing:
        raise errors.SparkMissing(library=missing.name or "pyspark") from missing
    running = pipeline.is_running()
    with progress.bar("starting Spark", total=None):
        spark = pipeline.session(where, memory=memory)
    try:
        yield spark
    finally:
        if not running:
            spark.stop()
