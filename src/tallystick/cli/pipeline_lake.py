"""`tally pipeline lake`: a log as a table of Delta Lake or Apache Iceberg, for tools that read those."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tallystick.cli import failures, options, output, pipeline, progress
from tallystick.cli.verify import counted, show_problems

if TYPE_CHECKING:
    from tallystick.pipeline.lake.check import TableVerifyResult
    from tallystick.pipeline.lake.projection_rows import RowsVerifyResult

_FORMAT = click.option("--format", type=click.Choice(("delta", "iceberg")), help="The format of a new table.")
_FORGET = click.option(
    "--forget", is_flag=True, help="Remove old versions of the table, and files left by killed runs."
)


@click.group("lake", short_help="Keep the log as a table of Delta Lake or Iceberg.")
def command() -> None:
    """Keep the events of a log, or the rows of a projection, as a table of Delta Lake or Apache Iceberg.

    Needs the extras `spark` and `lake` (pip install 'tallystick[spark,lake]'), but no Java and no Spark session. DEST
    is a directory or s3://BUCKET/PATH.
    """


@command.command("append", short_help="Add new events to the table.")
@options.url
@click.argument("destination", metavar="DEST", type=options.LOCATION)
@_FORMAT
@pipeline.archive
@click.option(
    "--buckets",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many buckets a new table has for its streams. Default: 16.",
)
@click.option(
    "--commit",
    "commit_events",
    metavar="N",
    type=click.IntRange(min=1),
    help="Positions per commit. Default: 1000000 for Delta, 250000 for Iceberg, which keeps them in memory.",
)
@_FORGET
@options.as_json
def append_(
    url: str,
    destination: str,
    format: str | None,
    archive_directory: str | None,
    buckets: int | None,
    commit_events: int | None,
    forget: bool,
    as_json: bool,
) -> None:
    """Add every event up to the safe head that the table does not have, and remove payloads that were erased.

    Each event is added once, even if runs are killed or several run at the same time. An erased payload stays in old
    versions of the table until --forget removes them.
    """
    with failures.needing_spark("pyarrow"), progress.tasks("appending") as show:
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
    erased = f", {done.erased} erased payloads removed" if done.erased else ""
    removed = f", {done.removed} old files removed" if done.removed else ""
    click.echo(f"appended {done.events} events in {done.commits} commits{erased}{removed}")
    click.echo(f"{destination} ({done.format}) holds the log through position {done.through}")
    _note_left(done.left)


@command.command("rows", short_help="Write the rows of a projection to a table.")
@options.url
@click.argument("name", metavar="NAME")
@click.argument("destination", metavar="DEST", type=options.LOCATION)
@_FORMAT
@_FORGET
@options.as_json
def rows_(url: str, name: str, destination: str, format: str | None, forget: bool, as_json: bool) -> None:
    """Replace the table with the live rows of the projection NAME, in one commit that records their position.

    Data that was erased from the rows stays in old versions of the table until --forget removes them.
    """
    with failures.needing_spark("pyarrow"):
        from tallystick.pipeline.lake.projection_rows import replace

        done = replace(url, name, destination, format, forget=forget)
    if as_json:
        output.document(done)
        return
    what = "now has" if done.changed else "already has"
    click.echo(f"{destination} ({done.format}) {what} the {done.rows} rows of {name} at position {done.position}")
    _note_left(done.left)


def _note_left(left: int) -> None:
    if left:
        output.note(f"{left} data files of old versions remain; --forget removes them")


@command.command("verify", short_help="Check every row of the table.")
@options.url
@click.argument("destination", metavar="DEST", type=options.LOCATION)
@pipeline.archive
@options.as_json
def verify_(url: str, destination: str, archive_directory: str | None, as_json: bool) -> int:
    """Check checksums, sequences and links of the table, and compare every row with the log and its archive.

    Lists events that are missing, repeated, swapped or changed. For a table with the rows of a projection, checks their
    fingerprint, and compares them with the log's rows if these are still at that position. Exit status 0 if nothing is
    wrong, 1 otherwise.
    """
    with failures.needing_spark("pyarrow"), progress.tasks("verifying") as show:
        from tallystick.pipeline.lake import check, projection_rows
        from tallystick.pipeline.lake.table import read_mark, table_at

        found: TableVerifyResult | RowsVerifyResult
        if read_mark(table_at(destination)).projection:
            found = projection_rows.verify(url, destination)
        else:
            found = check.verify(url, destination, archive_directory, show=show)
    document = {"ok": found.ok} | msgspec.to_builtins(found)
    return output.answer(found.ok, document, lambda: _show(found), as_json=as_json)


def _show(found: TableVerifyResult | RowsVerifyResult) -> None:
    if found.problems:
        show_problems(found.problems)
        click.echo(counted(found.problems, getattr(found, "truncated", False)))
    else:
        click.echo(f"ok: {_summary(found)}")
    for text in found.unsure:
        output.note(f"not checked: {text}")


def _summary(found: TableVerifyResult | RowsVerifyResult) -> str:
    from tallystick.pipeline.lake.check import TableVerifyResult

    if not isinstance(found, TableVerifyResult):
        return f"{found.rows} rows of {found.projection} at position {found.position}"
    erased = f", {found.erased} of them erased" if found.erased else ""
    where = f"{found.files} files, through position {found.through} of {found.head}"
    return f"{found.events} events{erased} in {found.streams} streams, {where}"
