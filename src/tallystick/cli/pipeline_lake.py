"""`tally pipeline lake`: a log as a table of Delta Lake or Apache Iceberg, for tools that know those."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from tallystick import errors
from tallystick.cli import failures, options, output, places, progress, spark
from tallystick.cli.verify import show_problems

if TYPE_CHECKING:
    from tallystick.pipeline.lake.check import TableVerified

_FORMATS = ("delta",)


@click.group("lake", short_help="Keep the log as a table of Delta Lake or Iceberg.")
def command() -> None:
    """Keep the events of a log as a table of Delta Lake or Apache Iceberg.

    Needs the extras `spark` and `lake` (pip install 'tallystick[spark,lake]'), but no Java and no Spark session. DEST
    is a directory or s3://BUCKET/PATH.
    """


@contextmanager
def _libraries() -> Iterator[None]:
    """Say what to install if a library is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise errors.SparkMissing(library=missing.name or "pyarrow") from missing


@command.command("append", short_help="Add what is new to the table.")
@options.url
@click.argument("destination", metavar="DEST", type=places.PLACE)
@click.option("--format", type=click.Choice(_FORMATS), help="The format of a table that is not there yet.")
@spark.archive
@click.option(
    "--buckets",
    metavar="N",
    type=click.IntRange(min=1),
    help="Into how many buckets a new table puts streams. Default: 16.",
)
@click.option(
    "--commit",
    "commit_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Positions a commit.",
)
@click.option("--forget", is_flag=True, help="Remove old versions of the table, and what killed runs left.")
@options.as_json
def append_(
    url: str,
    destination: str,
    format: str | None,
    archive_directory: str | None,
    buckets: int | None,
    commit_events: int,
    forget: bool,
    as_json: bool,
) -> None:
    """Add every event up to the safe head that the table does not have yet, and take out what was erased.

    Each event gets there once, whatever is killed and whoever runs at the same time. An erased payload is still in old
    versions of the table until --forget removes them.
    """
    with _libraries(), progress.tasks("appending") as show:
        from tallystick.pipeline.lake.events import append

        done = append(
            url,
            destination,
            format,
            archive=archive_directory,
            buckets=buckets,
            commit_events=commit_events,
            forget=forget,
            show=show,
        )
    if as_json:
        output.document(done)
        return
    erased = f", {done.erased} erased payloads taken out" if done.erased else ""
    removed = f", {done.removed} old files removed" if done.removed else ""
    click.echo(f"appended {done.events} events in {done.commits} commits{erased}{removed}")
    click.echo(f"{destination} ({done.format}) holds the log through position {done.through}")
    if done.left:
        output.note(f"{done.left} data files of old versions are still there: --forget removes them")


@command.command("verify", short_help="Check every row of the table.")
@options.url
@click.argument("destination", metavar="DEST", type=places.PLACE)
@spark.archive
@options.as_json
def verify_(url: str, destination: str, archive_directory: str | None, as_json: bool) -> int:
    """Check checksums, sequences and links of the table, and hold every row against the log and its archive.

    Events that are missing, doubled, exchanged or changed are listed. Exit status 0 if nothing is wrong, 1 otherwise.
    """
    with _libraries(), progress.tasks("verifying") as show:
        from tallystick.pipeline.lake.check import verify

        found = verify(url, destination, archive_directory, show=show)
    status = failures.decide(failures.DONE if found.ok else failures.NO)
    if as_json:
        output.document({"ok": found.ok} | msgspec.to_builtins(found))
    else:
        _show(found)
    return status


def _show(found: TableVerified) -> None:
    if found.problems:
        show_problems(found.problems)
        more = " or more" if found.truncated else ""
        click.echo(f"{len(found.problems)}{more} wrong in {found.events} events")
    else:
        erased = f", {found.erased} of them erased" if found.erased else ""
        where = f"{found.files} files, through position {found.through} of {found.head}"
        click.echo(f"ok: {found.events} events{erased} in {found.streams} streams, {where}")
    for text in found.unsure:
        output.note(f"not looked at: {text}")
